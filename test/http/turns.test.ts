import { describe, expect, it } from 'vitest';
import { createTurns, type Caller, type Turns } from '../../src/http/turns.js';

const TRIAL_MS = 600;

interface Work {
  readonly requests: number;
  readonly msPerTurn: number;
}

/** Runs requests of several callers at the same time, each taking turns until the trial ends. Returns each caller's time. */
async function share(turns: Turns, works: Readonly<Record<string, Work>>): Promise<Record<string, number>> {
  const used = Object.fromEntries(Object.keys(works).map((name) => [name, 0]));
  const end = performance.now() + TRIAL_MS;
  const send = async (name: string, { msPerTurn }: Work): Promise<void> => {
    while (performance.now() < end) {
      const caller: Caller = turns.enter(name);
      await turns.take(caller);
      const start = performance.now();
      while (performance.now() - start < msPerTurn);
      used[name] = (used[name] as number) + msPerTurn;
      // A response takes at least a turn of the event loop.
      await new Promise((resolve) => setImmediate(resolve));
      turns.leave(caller);
    }
  };
  await Promise.all(
    Object.entries(works).flatMap(([name, work]) => Array.from({ length: work.requests }, () => send(name, work))),
  );
  return used;
}

// Other programs on the machine take some of the time that is shared here, so a trial may be repeated.
const REPEATED = { retry: 2 };

describe('turns', () => {
  it('give a caller with one short request at a time a fair share beside many long ones', REPEATED, async () => {
    const used = await share(createTurns(), {
      long: { requests: 8, msPerTurn: 10 },
      short: { requests: 1, msPerTurn: 1 },
    });
    // In the order of arrival, it would be one in 81.
    expect((used.short as number) / (used.long as number)).toBeGreaterThan(0.05);
  });

  it('do not share by the number of requests', REPEATED, async () => {
    const used = await share(createTurns(), {
      many: { requests: 40, msPerTurn: 1 },
      few: { requests: 4, msPerTurn: 1 },
    });
    // In the order of arrival, it would be one in ten.
    expect((used.few as number) / (used.many as number)).toBeGreaterThan(0.2);
  });

  it('come at once to a caller that is alone', () => {
    const turns = createTurns();
    const caller = turns.enter('alone');
    expect(turns.take(caller)).toBeUndefined();
    expect(turns.take(caller)).toBeUndefined();
  });

  it('let long work wait for the next turn of the event loop, even if nobody else waits', async () => {
    const turns = createTurns();
    const caller = turns.enter('alone');
    let turnsOfEventLoop = 0;
    setImmediate(() => (turnsOfEventLoop += 1));
    await turns.take(caller, true);
    expect(turnsOfEventLoop).toBe(1);
  });
});
