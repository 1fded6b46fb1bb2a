import { setImmediate as nextPass } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { createTurns, type Caller } from '../../src/http/turns.js';

const TRIAL_MS = 600;

interface Work {
  readonly requests: number;
  readonly msPerTurn: number;
}

/** The time, in milliseconds. It is the test's own, because other programs on the machine take some of the real time. */
let time = 0;

/** Uses the event loop for some time. */
function work(ms: number): void {
  time += ms;
}

/** Runs requests of several callers at the same time, each taking turns until the trial ends. Returns each caller's time. */
async function share(works: Readonly<Record<string, Work>>): Promise<Record<string, number>> {
  const turns = createTurns();
  const used = Object.fromEntries(Object.keys(works).map((name) => [name, 0]));
  const end = performance.now() + TRIAL_MS;
  const send = async (name: string, { msPerTurn }: Work): Promise<void> => {
    while (performance.now() < end) {
      const caller: Caller = turns.enter(name);
      await turns.take(caller);
      work(msPerTurn);
      used[name] = (used[name] as number) + msPerTurn;
      // A response takes at least a pass of the event loop.
      await nextPass();
      turns.leave(caller);
    }
  };
  await Promise.all(
    Object.entries(works).flatMap(([name, each]) => Array.from({ length: each.requests }, () => send(name, each))),
  );
  return used;
}

describe('turns', () => {
  beforeEach(() => {
    // Looking at the clock takes a microsecond.
    vi.spyOn(performance, 'now').mockImplementation(() => (time += 0.001));
  });
  afterEach(() => {
    vi.restoreAllMocks();
  });

  it.each([
    ['few requests beside many', { requests: 4, msPerTurn: 1 }, { requests: 40, msPerTurn: 1 }],
    ['short turns beside long ones', { requests: 4, msPerTurn: 0.2 }, { requests: 8, msPerTurn: 10 }],
    ['one request at a time beside many', { requests: 1, msPerTurn: 1 }, { requests: 8, msPerTurn: 10 }],
    [
      'many short turns beside one long turn at a time',
      { requests: 40, msPerTurn: 0.1 },
      { requests: 1, msPerTurn: 10 },
    ],
    ['short turns beside many shorter ones', { requests: 4, msPerTurn: 1 }, { requests: 100, msPerTurn: 0.05 }],
  ])('give each caller its share of the time: %s', async (_, one, other) => {
    const used = await share({ one, other });
    expect((used.one as number) / ((used.one as number) + (used.other as number))).toBeGreaterThan(0.4);
  });

  it('end after a few milliseconds, so that connections are looked at, however short each of them is', async () => {
    const turns = createTurns();
    await turns.take(turns.enter('alone'));
    const atOnce: boolean[] = [];
    for (let request = 0; request < 50; request++) {
      const caller = turns.enter('alone');
      const turn = turns.take(caller);
      atOnce.push(turn === undefined);
      work(0.2);
      void Promise.resolve(turn).then(() => turns.leave(caller));
    }
    expect(atOnce[0]).toBe(true);
    expect(atOnce.filter(Boolean).length).toBeLessThan(20);
  });

  it('come at once to a caller that is alone', async () => {
    const turns = createTurns();
    const caller = turns.enter('alone');
    await turns.take(caller);
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

  it('are of one request each when the work is long, though short ones of the same caller came together', async () => {
    const turns = createTurns();
    const caller = turns.enter('one');
    turns.enter('other');
    let pass = 0;
    let isOver = false;
    const countPass = (): void => {
      pass += 1;
      if (!isOver) setImmediate(countPass);
    };
    setImmediate(countPass);
    /** Returns in which pass of the event loop the turn of each of ten requests came. */
    const takeTen = (isLong: boolean): Promise<number[]> =>
      Promise.all(
        Array.from({ length: 10 }, async () => {
          await turns.take(caller, isLong);
          work(isLong ? 10 : 0.01);
          return pass;
        }),
      );
    for (let round = 0; round < 5; round++) await takeTen(false);
    const passes = await takeTen(true);
    isOver = true;
    expect(new Set(passes).size).toBeGreaterThan(8);
  });

  it('come later to a caller that was charged for work outside of them', async () => {
    const turns = createTurns();
    const callers = ['charged', 'other'].map((name) => turns.enter(name));
    turns.charge(callers[0] as Caller, 10);
    const order: string[] = [];
    await Promise.all(
      callers.map(async (caller) => {
        await turns.take(caller);
        order.push(caller.name);
      }),
    );
    expect(order).toEqual(['other', 'charged']);
  });
});
