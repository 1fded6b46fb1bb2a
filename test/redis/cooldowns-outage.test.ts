import { beforeEach, describe, expect, it } from 'vitest';
import { monotonicNow } from '../../src/clock.js';
import { createRedisCooldowns, type SharedCooldowns } from '../../src/redis/redis-cooldowns.js';
import type { RedisCommands, RedisLink } from '../../src/redis/redis-link.js';

const LIVE = 5_000;

describe('cooldowns after an outage', () => {
  /** How often Redis received each key. */
  let received: Map<string, number>;
  let inFlight: number;
  let mostInFlight: number;
  let isUp: boolean;
  let listeners: (() => void)[];
  /** After how many calls the link goes down. */
  let failAfter: number;
  let cooldowns: SharedCooldowns;

  const total = (): number => [...received.values()].reduce((sum, count) => sum + count, 0);
  const goUp = (): void => {
    isUp = true;
    for (const listener of listeners) listener();
  };

  const client = {
    async evalsha(_digest: string, _keys: number, key: string, call: number, wait: number, ban: number) {
      mostInFlight = Math.max(mostInFlight, ++inFlight);
      await new Promise(setImmediate);
      inFlight--;
      if (isUp && total() >= failAfter) isUp = false;
      if (!isUp) throw new Error('lost');
      received.set(key, (received.get(key) ?? 0) + 1);
      return [call, wait, ban];
    },
  } as unknown as RedisCommands;

  const link: RedisLink = {
    get isUp() {
      return isUp;
    },
    failure: undefined,
    async ask(_call, send, read) {
      return isUp ? send(client).then(read, () => undefined) : undefined;
    },
    onUp: (listener) => listeners.push(listener),
    close: () => undefined,
  };

  beforeEach(() => {
    received = new Map();
    inFlight = mostInFlight = 0;
    isUp = false;
    listeners = [];
    failAfter = Infinity;
    cooldowns = createRedisCooldowns(link);
    const share = (keyId: string, milliseconds: number): void => {
      const until = monotonicNow() + milliseconds;
      cooldowns.share(keyId, { until, retryAt: until, code: 'rate_limited' });
    };
    for (let n = 0; n < LIVE; n++) share(`live ${n}`, 60_000);
    for (let n = 0; n < 100; n++) share(`expired ${n}`, -1);
  });

  it('are sent a few at a time, without the expired ones', async () => {
    goUp();
    await expect.poll(() => received.size, { timeout: 10_000 }).toBe(LIVE);
    expect(total()).toBe(LIVE);
    expect(mostInFlight).toBeLessThanOrEqual(100);
    expect([...received.keys()].filter((key) => key.includes('expired'))).toEqual([]);
  });

  it('are all sent again after an outage that interrupted this', async () => {
    failAfter = 2_350;
    goUp();
    await expect.poll(() => isUp, { timeout: 10_000 }).toBe(false);
    failAfter = Infinity;
    goUp();
    await expect.poll(() => received.size, { timeout: 10_000 }).toBe(LIVE);
  });
});
