import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { createMemoryLedger } from '../src/access/memory-ledger.js';
import { toWindows } from '../src/access/plans.js';
import { shareLedger } from '../src/redis/ledger.js';
import { startGateway, startProxyBefore, type Gateway } from './support/gateway.js';
import { connectRedis, describeWithRedis, openTestRedis, redisUrl } from './support/redis.js';
import { send, startScriptedUpstream } from './support/scripted-upstream.js';

const HOUR_MS = 3_600_000;
const STEPS = [
  ['back an hour', -HOUR_MS],
  ['forward a day', 24 * HOUR_MS],
] as const;
const PETS = '{ pets { id } }';
/** The real clock, which `vi` does not replace. */
const realNow = (): number => performance.timeOrigin + performance.now();

function stepClock(milliseconds: number): void {
  vi.spyOn(Date, 'now').mockImplementation(() => realNow() + milliseconds);
}

describe.each(STEPS)('a wall clock that steps %s', (_, stepMs) => {
  let gateway: Gateway;

  beforeEach(async () => {
    gateway = await startGateway('embedded', { BAN_AFTER: '1', BAN_SECONDS: '2' });
  });
  afterEach(async () => {
    vi.restoreAllMocks();
    await gateway.close();
  });

  it('neither lengthens nor shortens a window, and clients get times of their own clock', async () => {
    const { key } = await gateway.createKey({ plan: 'enterprise', limits: { perMinute: 2, perDay: 100 } });
    const before = await gateway.graphql('{ a: pets(limit: 1) { id } b: pets(limit: 2) { id } }', { key });
    stepClock(stepMs);
    const refused = await gateway.graphql(PETS, { key });
    expect(refused.status).toBe(429);
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(50);
    expect(Number(refused.headers.get('retry-after'))).toBeLessThanOrEqual(60);
    const reset = (headers: Headers): number => Number(headers.get('x-ratelimit-reset'));
    expect(reset(refused.headers)).toBe(reset(before.headers) + stepMs / 1_000);
    const { data } = await gateway.graphql('{ rateLimit { windows { resetAt } } }', { key });
    expect(data.rateLimit.windows[0].resetAt).toBe(reset(refused.headers));
  });

  it('keeps no revoked key valid for more than five seconds', async () => {
    const { id, key } = await gateway.createKey();
    expect((await gateway.graphql(PETS, { key })).status).toBe(200);
    await gateway.keys.revoke(id, 'test');
    stepClock(stepMs);
    await sleep(5_000);
    expect((await gateway.graphql(PETS, { key })).status).toBe(401);
  });

  it('does not change the length of a ban', async () => {
    const { key } = await gateway.createKey({ plan: 'enterprise', limits: { perMinute: 1, perDay: 100 } });
    for (let i = 0; i < 3; i++) await gateway.graphql(PETS, { key });
    stepClock(stepMs);
    const banned = await gateway.graphql(PETS, { key });
    expect(banned.errors?.[0]?.extensions).toMatchObject({ code: 'KEY_BANNED', retryAfter: 2 });
    await sleep(2_100);
    expect((await gateway.graphql('{ rateLimit { plan } }', { key })).status).toBe(200);
  });

  it('neither forgets nor lengthens the count of the field rateLimit', async () => {
    const { key } = await gateway.createKey();
    const query = `{ ${Array.from({ length: 60 }, (_, i) => `r${i}: rateLimit { plan }`).join(' ')} }`;
    await gateway.graphql(query, { key });
    stepClock(stepMs);
    const { errors } = await gateway.graphql('{ rateLimit { plan } }', { key });
    const retryAfter = errors?.[0]?.extensions.retryAfter;
    expect(retryAfter).toBeGreaterThan(30);
    expect(retryAfter).toBeLessThanOrEqual(60);
  });
});

it.each(STEPS)('a wall clock that steps %s neither ends nor lengthens a cooldown', async (_, stepMs) => {
  const upstream = await startScriptedUpstream((_request, response) => {
    const body = { code: 'rate_limited', message: 'No.', status: 429 };
    send(response, 429, body, { 'Retry-After': '2' });
  });
  const gateway = await startProxyBefore(upstream.url);
  expect((await gateway.graphql(PETS, { key: 'a' })).status).toBe(429);
  stepClock(stepMs);
  expect((await gateway.graphql(PETS, { key: 'a' })).errors?.[0]?.extensions.retryAfter).toBe(2);
  expect(upstream.seen).toHaveLength(1);
  await sleep(2_100);
  await gateway.graphql(PETS, { key: 'a' });
  expect(upstream.seen).toHaveLength(2);
  vi.restoreAllMocks();
  await gateway.close();
  await upstream.close();
});

/** Moves all times that Redis holds: the opposite of a step of its clock. */
const SHIFT = `
for _, key in ipairs(KEYS) do
  redis.call('HINCRBY', key, 'closes', ARGV[1])
  redis.call('PEXPIRE', key, 86400000)
end
`;

describeWithRedis('a clock of Redis that steps', () => {
  it.each(STEPS)('%s: an instance that knows a window keeps it as it is', async (_, stepMs) => {
    const nameOf = (id: string): string => `animals:test:{${id}}`;
    const { client } = await openTestRedis(redisUrl(), { timeoutMs: 10_000 });
    const inspector = await connectRedis(redisUrl());
    const account = { id: randomUUID(), windows: toWindows({ perMinute: 5, perDay: 100 }) };
    const ledger = shareLedger(client, createMemoryLedger(), nameOf);
    const before = await ledger.admit(account, 4);
    const names = ['minute', 'day'].map((window) => `${nameOf(account.id)}:${window}`);
    await inspector.eval(SHIFT, 2, ...names, -stepMs);
    const after = await ledger.admit(account, 1);
    expect(after.windows.map(({ remaining }) => remaining)).toEqual([0, 95]);
    after.windows.forEach(({ resetAt }, i) => {
      expect(Math.abs(resetAt - (before.windows[i]?.resetAt ?? 0))).toBeLessThan(2_100);
    });
    // Another instance, which knows nothing, sees the same.
    const other = shareLedger(client, createMemoryLedger(), nameOf);
    expect(await other.admit(account, 1)).toMatchObject({ outcome: 'refused' });
    client.close();
    inspector.disconnect();
  });
});
