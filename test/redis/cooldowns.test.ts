import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { Cooldowns } from '../../src/access/cooldown.js';
import { monotonicNow } from '../../src/clock.js';
import type { RedisClient } from '../../src/redis/client.js';
import { createRedisCooldowns } from '../../src/redis/cooldowns.js';
import { startFaultProxy, type FaultProxy } from '../support/fault-proxy.js';
import { describeWithRedis, openTestRedis, redisUrl } from '../support/redis.js';

describeWithRedis('cooldowns of two gateways', () => {
  let clients: RedisClient[];
  let proxy: FaultProxy;
  let one: Cooldowns;
  let other: Cooldowns;
  let key: string;

  beforeEach(async () => {
    const url = new URL(redisUrl());
    proxy = await startFaultProxy({ port: Number(url.port || 6_379) });
    const between = new URL(url);
    between.host = `127.0.0.1:${proxy.port}`;
    const open = async (address: URL) => (await openTestRedis(address.href, { timeoutMs: 5_000 })).client;
    clients = [await open(between), await open(url)];
    [one, other] = clients.map((client) => createRedisCooldowns(client, (id) => `animals:test:cooldown:{${id}}`)) as [
      Cooldowns,
      Cooldowns,
    ];
    key = randomUUID();
  });
  afterEach(async () => {
    for (const client of clients) client.close();
    await proxy.close();
  });

  const share = (waitMs: number, leftMs: number, keyId = key): void => {
    const now = monotonicNow();
    one.share(keyId, { until: now + waitMs, retryAt: now + leftMs, code: 'rate_limited' });
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

  it('are found by all also when the wait is over, until the upstream says how long the next one is', async () => {
    share(100, 3_600_000);
    await sleep(500);
    for (const cooldowns of [one, other, one, other]) {
      const { until = Infinity, retryAt = 0 } = (await cooldowns.find(key)) ?? {};
      expect(until).toBeLessThan(monotonicNow());
      expect(retryAt).toBeGreaterThan(monotonicNow() + 3_590_000);
    }
    share(20_000, 20_000);
    await expectShared([20, 20]);
    share(60_000, 3_600_000);
    await expectShared([60, 3_600]);
  });

  it('of banned keys are those of banned keys for all', async () => {
    const retryAt = monotonicNow() + 300_000;
    one.share(key, { until: retryAt, retryAt, code: 'key_banned' });
    await expectShared([300, 300]);
    expect(await other.find(key)).toMatchObject({ code: 'key_banned' });
  });

  it('end for all when the upstream serves the key that one has tried', async () => {
    share(100, 3_600_000);
    await sleep(200);
    expect(await waitOf(other)).toEqual([-0, 3_600]);
    other.end(key);
    await vi.waitFor(async () => expect([await waitOf(one), await waitOf(other)]).toEqual([undefined, undefined]));
  });

  it('do not end with a response to an earlier request', async () => {
    share(60_000, 3_600_000);
    await expectShared([60, 3_600]);
    for (const cooldowns of [one, other]) cooldowns.end(key);
    expect(await waitOf(one)).toEqual([60, 3_600]);
  });

  it.each(['rate_limited', 'key_banned'] as const)(
    'of %s do not end with a response to a gateway that knows only an earlier one',
    async (code) => {
      share(100, 100);
      await vi.waitFor(async () => expect(await other.find(key)).toBeDefined(), { interval: 5 });
      await sleep(150);
      const until = monotonicNow() + 60_000;
      one.share(key, { until, retryAt: until + 1_000, code });
      await vi.waitFor(async () => expect(await one.find(key)).toMatchObject({ code }));
      other.end(key);
      await sleep(50);
      expect(await one.find(key)).toMatchObject({ code });
    },
  );

  it('of an outage are shared after it, without those that have ended', async () => {
    const keys = Array.from({ length: 1_000 }, () => randomUUID());
    await proxy.set('refuse');
    await vi.waitFor(() => expect(clients[0]?.isUp).toBe(false));
    for (const keyId of keys) share(60_000, 60_000, keyId);
    share(-1, -1);
    await proxy.set('pass');
    // They are shared one after the other: asking for all of them again and again would slow that down.
    const countShared = async (some: string[]) =>
      (await Promise.all(some.map((keyId) => waitOf(other, keyId)))).filter(Boolean).length;
    const ends = [keys[0], keys[999]] as string[];
    await vi.waitFor(async () => expect(await countShared(ends)).toBe(2), { timeout: 10_000 });
    expect(await countShared(keys)).toBe(1_000);
    expect(await waitOf(other)).toBeUndefined();
  });
});
