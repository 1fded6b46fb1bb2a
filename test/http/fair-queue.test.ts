import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { createFairQueue } from '../../src/http/fair-queue.js';

/** Keeps the event loop busy, as work for a request does. */
function work(milliseconds: number): number {
  const end = performance.now() + milliseconds;
  while (performance.now() < end);
  return milliseconds;
}

describe('the fair queue', () => {
  const createQueue = (lateMs = 10_000) => createFairQueue<number>({ lateMs, weigh: () => 0 });

  /** Sends requests one after the other for a while. Returns how many were served. */
  async function keepAsking(ask: () => Promise<number> | number, milliseconds: number): Promise<number> {
    const end = performance.now() + milliseconds;
    let served = 0;
    while (performance.now() < end) {
      await ask();
      // A client sends its next request when it has the response.
      await sleep(0);
      served += 1;
    }
    return served;
  }

  it('runs a request at once, without a promise, while nothing stands in its way', () => {
    expect(createQueue()('key', () => 7)).toBe(7);
  });

  it('passes on what a task throws, and serves the next', async () => {
    const run = createQueue();
    const fail = (): never => {
      throw new Error('no');
    };
    expect(() => run('key', fail)).toThrow('no');
    await expect(Promise.resolve(run('key', () => Promise.reject(new Error('late no'))))).rejects.toThrow('late no');
    await expect(Promise.resolve(run('key', () => 1))).resolves.toBe(1);
  });

  it('leaves an honest caller a third of the event loop beside one with long requests', async () => {
    const run = createQueue();
    let usedByOther = 0;
    const other = Array.from({ length: 8 }, () =>
      keepAsking(async () => (usedByOther += await run('other', () => work(25))), 2_000),
    );
    let used = 0;
    await keepAsking(async () => (used += await run('honest', () => work(1))), 2_000);
    await Promise.all(other);
    expect(used / (used + usedByOther)).toBeGreaterThan(0.2);
  });

  it('never makes a caller that is alone wait', async () => {
    const run = createQueue();
    for (let count = 0; count < 50; count += 1) {
      expect(run('key', () => work(10))).toBe(10);
      await nextTurn();
    }
  });

  it('notices while requests wait that the others have left', async () => {
    const run = createFairQueue<number>({ lateMs: 10_000, weigh: (ms = 0) => ms });
    await run('other', () => 1);
    await run('key', () => 1);
    await sleep(150);
    const startedAt = performance.now();
    // Beside another caller, each of these would take 40 to 200 ms.
    await Promise.all(Array.from({ length: 150 }, () => Promise.resolve(run('key', () => Promise.resolve(40)))));
    expect(performance.now() - startedAt).toBeLessThan(1_500);
  });

  it('begins no more in one turn of the event loop than fits into it, also if the work comes later', async () => {
    const run = createFairQueue<number>({ lateMs: 10_000, weigh: (ms = 0) => ms });
    let started = 0;
    const task = async (): Promise<number> => {
      started += 1;
      await Promise.resolve();
      return 2;
    };
    const asked = Array.from({ length: 20 }, () => Promise.resolve(run('key', task)));
    // Each is expected to take two milliseconds, and a turn has five.
    expect(started).toBe(3);
    await Promise.all(asked);
    expect(started).toBe(20);
  });

  it('bounds the requests of one caller that run, and refuses those that wait too long', async () => {
    const run = createQueue(100);
    let release = (): void => undefined;
    const gate = new Promise<number>((resolve) => (release = () => resolve(1)));
    let started = 0;
    const task = (): Promise<number> => {
      started += 1;
      return gate;
    };
    const asked = Array.from({ length: 100 }, () => Promise.resolve(run('key', task)));
    const settled = Promise.allSettled(asked);
    expect(started).toBeLessThanOrEqual(64);
    // Another caller is not affected, but may have to wait for the end of this turn.
    expect(await run('other', () => 2)).toBe(2);
    await sleep(300);
    release();
    const refused = (await settled).filter(({ status }) => status === 'rejected');
    expect(refused).toHaveLength(100 - started);
    for (const outcome of refused) expect(outcome).toMatchObject({ reason: { code: 'overloaded' } });
  });

  it('refuses at once when very many requests of a caller wait', () => {
    const run = createQueue();
    const never = (): Promise<number> => new Promise(() => undefined);
    const ask = (): void => {
      for (let count = 0; count < 2_000; count += 1) Promise.resolve(run('key', never)).catch(() => undefined);
    };
    expect(ask).toThrow(/overloaded/);
  });
});
