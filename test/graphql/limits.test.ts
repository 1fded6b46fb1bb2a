import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { PlanLimits } from '../../src/access/plans.js';
import { startGateway, MODES, type Gateway } from '../support/gateway.js';

const lookups = (count: number): string =>
  `{ ${Array.from({ length: count }, (_, i) => `a${i}: pet(id: ${i + 1}) { id }`).join(' ')} }`;

describe.each(MODES)('limits of GraphQL operations, %s store', (mode) => {
  let gateway: Gateway;

  beforeAll(async () => {
    gateway = await startGateway(mode);
  });
  afterAll(() => gateway.close());

  async function createKey(limits?: PlanLimits): Promise<string> {
    const { key } = await gateway.createKey(limits ? { plan: 'enterprise', limits } : { plan: 'free' });
    return key;
  }

  it('charges nothing for a refused operation: with 3 left, a cost of 5 leaves 3', async () => {
    const key = await createKey({ perMinute: 8, perDay: 100 });
    const first = await gateway.graphql(lookups(5), { key });
    expect(first.headers.get('x-ratelimit-remaining')).toBe('3');
    const refused = await gateway.graphql(lookups(5), { key });
    expect(refused.status).toBe(429);
    expect(refused.headers.get('x-ratelimit-remaining')).toBe('3');
    const last = await gateway.graphql(lookups(3), { key });
    expect(last.status).toBe(200);
    expect(last.headers.get('x-ratelimit-remaining')).toBe('0');
  });

  it('charges neither window when one of them refuses', async () => {
    const key = await createKey({ perMinute: 5, perDay: 100 });
    await gateway.graphql(lookups(4), { key });
    for (let i = 0; i < 3; i++) await gateway.graphql(lookups(2), { key });
    const { headers } = await gateway.graphql('{ __typename }', { key });
    expect(headers.get('ratelimit')).toMatch(/^"minute";r=1;t=\d+, "day";r=96;t=\d+$/);
  });

  it('returns 429 with Retry-After and the cost, without data', async () => {
    const key = await createKey({ perMinute: 3, perDay: 100 });
    await gateway.graphql(lookups(2), { key });
    const { status, headers, errors, text } = await gateway.graphql(lookups(2), { key });
    expect(status).toBe(429);
    expect(JSON.parse(text)).not.toHaveProperty('data');
    expect(errors).toHaveLength(1);
    const wait = Number(headers.get('retry-after'));
    expect(errors?.[0]?.extensions).toEqual({
      code: 'RATE_LIMITED',
      error: { code: 'rate_limited', message: errors?.[0]?.message, status: 429 },
      retryAfter: wait,
      cost: 2,
      requestId: headers.get('x-request-id'),
    });
    expect(wait).toBeGreaterThan(30);
    expect(wait).toBeLessThanOrEqual(60);
    expect(headers.get('x-ratelimit-limit')).toBe('3');
    expect(headers.get('x-ratelimit-remaining')).toBe('1');
  });

  it('does not run any part of a refused mutation', async () => {
    const key = await createKey({ perMinute: 2, perDay: 100 });
    const add = (alias: string) => `${alias}: addPet(input: { name: "Ghost", categoryId: 1 }) { id }`;
    await gateway.graphql('{ pets { id } }', { key });
    const { status } = await gateway.graphql(`mutation { ${add('a')} ${add('b')} }`, { key });
    expect(status).toBe(429);
    expect(await gateway.sql(`SELECT id FROM pets WHERE name = 'Ghost'`)).toEqual([]);
  });

  it('returns 400 for an operation that costs more than a window holds, uncharged', async () => {
    const key = await createKey();
    await gateway.graphql('{ pets { id } }', { key });
    const { status, headers, errors, text } = await gateway.graphql(lookups(61), { key });
    expect(status).toBe(400);
    expect(JSON.parse(text)).not.toHaveProperty('data');
    expect(errors?.map(({ extensions }) => extensions)).toEqual([
      { code: 'OPERATION_TOO_LARGE', cost: 61, requestId: headers.get('x-request-id') },
    ]);
    expect(headers.has('retry-after')).toBe(false);
    expect(headers.get('x-ratelimit-remaining')).toBe('59');
    const whole = await gateway.graphql(lookups(59), { key });
    expect(whole.status).toBe(200);
  });

  it('returns 400 for an operation that costs more than the daily limit', async () => {
    const key = await createKey({ perMinute: 50, perDay: 4 });
    await gateway.graphql('{ pets { id } }', { key });
    const { errors } = await gateway.graphql(lookups(5), { key });
    expect(errors?.[0]?.extensions.code).toBe('OPERATION_TOO_LARGE');
  });

  it('describes both windows in RateLimit and the one with fewest requests left in X-RateLimit-*', async () => {
    const key = await createKey();
    const now = Date.now() / 1_000;
    const { headers } = await gateway.graphql(lookups(3), { key });
    expect(headers.get('ratelimit-policy')).toBe('"minute";q=60;w=60, "day";q=1000;w=86400');
    const [, minute, day] = /^"minute";r=57;t=(\d+), "day";r=997;t=(\d+)$/.exec(headers.get('ratelimit') ?? '') ?? [];
    expect(Number(minute)).toBeGreaterThan(50);
    expect(Number(minute)).toBeLessThanOrEqual(60);
    expect(Number(day)).toBeGreaterThan(86_390);
    expect(Number(day)).toBeLessThanOrEqual(86_400);
    expect(headers.get('x-ratelimit-limit')).toBe('60');
    expect(headers.get('x-ratelimit-remaining')).toBe('57');
    const reset = Number(headers.get('x-ratelimit-reset'));
    expect(reset).toBeGreaterThanOrEqual(now + 60);
    expect(reset).toBeLessThanOrEqual(Date.now() / 1_000 + 61);
  });

  it('describes the day in X-RateLimit-* when it has fewer requests left', async () => {
    const key = await createKey({ perMinute: 10, perDay: 6 });
    const now = Date.now() / 1_000;
    const { headers } = await gateway.graphql(lookups(2), { key });
    expect(headers.get('x-ratelimit-limit')).toBe('6');
    expect(headers.get('x-ratelimit-remaining')).toBe('4');
    expect(Number(headers.get('x-ratelimit-reset'))).toBeGreaterThan(now + 86_000);
    const refused = await gateway.graphql(lookups(5), { key });
    expect(refused.status).toBe(429);
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(86_000);
  });

  it('describes the shorter window in X-RateLimit-* on a tie', async () => {
    const key = await createKey({ perMinute: 7, perDay: 7 });
    const { headers } = await gateway.graphql(lookups(2), { key });
    expect(headers.get('x-ratelimit-remaining')).toBe('5');
    expect(Number(headers.get('x-ratelimit-reset'))).toBeLessThanOrEqual(Date.now() / 1_000 + 61);
  });

  it('opens a window with the first counted request and does not move it', async () => {
    const key = await createKey();
    const resetOf = async (query: string) =>
      Number((await gateway.graphql(query, { key })).headers.get('x-ratelimit-reset'));
    await gateway.graphql('{ __typename }', { key });
    await passTime(1_100);
    const before = Math.floor(Date.now() / 1_000);
    const opened = await resetOf('{ pets { id } }');
    expect(opened).toBeGreaterThanOrEqual(before + 60);
    await passTime(2_100);
    // In proxy mode the reset is learned in whole seconds, so it may differ by one.
    expect(await resetOf('{ pets { id } }')).toBeLessThanOrEqual(opened + 1);
    expect(await resetOf('{ __typename }')).toBeLessThanOrEqual(opened + 1);
  });

  it('admits exactly 60 of 200 concurrent requests of a free key', async () => {
    const key = await createKey();
    const answers = await Promise.all(
      Array.from({ length: 200 }, (_, i) => gateway.graphql(`{ pet(id: ${i}) { id } }`, { key })),
    );
    const count = (wanted: number) => answers.filter(({ status }) => status === wanted).length;
    expect([count(200), count(429), count(503)]).toEqual([60, 140, 0]);
  });

  it('counts each key separately', async () => {
    const [mine, other] = [await createKey({ perMinute: 1, perDay: 1 }), await createKey({ perMinute: 1, perDay: 1 })];
    expect((await gateway.graphql('{ pets { id } }', { key: mine })).status).toBe(200);
    expect((await gateway.graphql('{ pets { id } }', { key: mine })).status).toBe(429);
    expect((await gateway.graphql('{ pets { id } }', { key: other })).status).toBe(200);
  });

  it('serves free operations to a key with no requests left', async () => {
    const key = await createKey({ perMinute: 1, perDay: 100 });
    await gateway.graphql('{ pets { id } }', { key });
    expect((await gateway.graphql('{ pets { id } }', { key })).status).toBe(429);
    const { status, data } = await gateway.graphql('{ rateLimit { windows { remaining } } }', { key });
    expect(status).toBe(200);
    expect(data.rateLimit.windows).toEqual([{ remaining: 0 }, { remaining: 99 }]);
  });
});

function passTime(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}
