import { randomUUID } from 'node:crypto';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { Cooldowns } from '../../src/access/cooldown.js';
import { monotonicNow } from '../../src/clock.js';
import type { RedisClient } from '../../src/redis/client.js';
import { createRedisCooldowns } from '../../src/redis/cooldowns.js';
import { describeWithRedis, openTestRedis, redisUrl } from '../support/redis.js';

describeWithRedis('cooldowns of two gateways', () => {
  let clients: RedisClient[];
  let one: Cooldowns;
  let other: Cooldowns;
  let key: string;

  beforeEach(async () => {
    const open = async () => (await openTestRedis(redisUrl(), { timeoutMs: 5_000 })).client;
    clients = [await open(), await open()];
    [one, other] = clients.map((client) => createRedisCooldowns(client, (id) => `animals:test:cooldown:{${id}}`)) as [
      Cooldowns,
      Cooldowns,
    ];
    key = randomUUID();
  });
  afterEach(() => {
    for (const client of clients) client.close();
  });

  const share = (waitMs: number, leftMs: number): void => {
    const now = monotonicNow();
    one.share(key, { until: now + waitMs, retryAt: now + leftMs, code: 'rate_limited' });
  };
  const waitOf = async (cooldowns: Cooldowns, keyId = key): Promise<number[] | undefined> => {
    const cooldown = await cooldowns.find(keyId);
    return cooldown && [cooldown.until, cooldown.retryAt].map((time) => Math.round((time - monotonicNow()) / 1_000));
  };
  const expectShared = (wait: number[]): Promise<void> =>
    vi.waitFor(async () => expect(await waitOf(other)).toEqual(wait), { timeout: 2_000 });

  it('are the same, with the longer of two waits', async () => {
    share(60_000, 3_600_000);
    share(20_000, 20_000);
    await expectShared([60, 3_600]);
    expect(await waitOf(one)).toEqual([60, 3_600]);
    expect(await waitOf(one, randomUUID())).toBeUndefined();
  });

  it('of banned keys are those of banned keys for all', async () => {
    const retryAt = monotonicNow() + 300_000;
    one.share(key, { until: retryAt, retryAt, code: 'key_banned' });
    await expectShared([300, 300]);
    expect(await other.find(key)).toMatchObject({ code: 'key_banned' });
  });
});
