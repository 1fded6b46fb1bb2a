import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startGateway, MODES, type Gateway } from '../support/gateway.js';

const WINDOWS = 'rateLimit { plan windows { seconds limit remaining resetAt } }';

describe.each(MODES)('the field rateLimit, %s store', (mode) => {
  let gateway: Gateway;
  /** An upstream does not state the plans of its keys. */
  const statedPlan = (plan: string): string | null => (mode === 'proxy' ? null : plan);

  beforeAll(async () => {
    gateway = await startGateway(mode);
  });
  afterAll(() => gateway.close());

  it('reports the same numbers as the headers, after the charge for its own operation', async () => {
    const { key } = await gateway.createKey({ plan: 'free' });
    await gateway.graphql('{ pets { id } }', { key });
    const { headers, data } = await gateway.graphql(`{ a: pet(id: 1) { id } b: pet(id: 2) { id } ${WINDOWS} }`, {
      key,
    });
    const { plan, windows } = data.rateLimit as { plan: string; windows: Record<string, number>[] };
    expect(plan).toBe(statedPlan('FREE'));
    expect(windows).toMatchObject([
      { seconds: 60, limit: 60, remaining: 57 },
      { seconds: 86_400, limit: 1_000, remaining: 997 },
    ]);
    expect(headers.get('x-ratelimit-limit')).toBe('60');
    expect(headers.get('x-ratelimit-remaining')).toBe('57');
    expect(Math.abs(Number(headers.get('x-ratelimit-reset')) - (windows[0]?.resetAt ?? 0))).toBeLessThanOrEqual(1);
    expect(headers.get('ratelimit')).toMatch(/^"minute";r=57;t=\d+, "day";r=997;t=\d+$/);
  });

  it.each([
    ['free', 'FREE', 60, 1_000],
    ['pro', 'PRO', 300, 10_000],
    ['business', 'BUSINESS', 1_000, 100_000],
  ] as const)('reports the published limits of the plan %s', async (plan, name, perMinute, perDay) => {
    const { key } = await gateway.createKey({ plan });
    await gateway.graphql('{ pets { id } }', { key });
    const { data } = await gateway.graphql(`{ ${WINDOWS} }`, { key });
    expect(data.rateLimit).toMatchObject({
      plan: statedPlan(name),
      windows: [
        { seconds: 60, limit: perMinute, remaining: perMinute - 1 },
        { seconds: 86_400, limit: perDay, remaining: perDay - 1 },
      ],
    });
  });

  it('reports the limits of an enterprise key', async () => {
    const { key } = await gateway.createKey({ plan: 'enterprise', limits: { perMinute: 7, perDay: 70 } });
    await gateway.graphql('{ pets { id } }', { key });
    const { data } = await gateway.graphql('{ rateLimit { plan windows { limit remaining } } }', { key });
    expect(data.rateLimit).toEqual({
      plan: statedPlan('ENTERPRISE'),
      windows: [
        { limit: 7, remaining: 6 },
        { limit: 70, remaining: 69 },
      ],
    });
  });

  it('is served 60 times a minute; the 61st gets a field error and its siblings are served', async () => {
    const { key } = await gateway.createKey();
    for (let i = 0; i < 60; i++) {
      const { data } = await gateway.graphql('{ rateLimit { plan } __typename }', { key });
      expect(data.__typename).toBe('Query');
    }
    const { status, headers, data, errors } = await gateway.graphql('{ rateLimit { plan } pets { id } }', { key });
    expect(status).toBe(200);
    expect(data).toEqual({ rateLimit: null, pets: [] });
    expect(errors).toHaveLength(1);
    expect(errors?.[0]?.path).toEqual(['rateLimit']);
    const { retryAfter, ...extensions } = errors?.[0]?.extensions ?? {};
    expect(extensions).toEqual({ code: 'RATE_LIMITED', requestId: headers.get('x-request-id') });
    expect(retryAfter).toBeGreaterThan(0);
    expect(retryAfter).toBeLessThanOrEqual(60);
  });

  it('is served exactly 60 times for a hundred concurrent requests', async () => {
    const { key } = await gateway.createKey();
    await gateway.graphql('{ pets { id } }', { key });
    const answers = await Promise.all(
      Array.from({ length: 100 }, () => gateway.graphql('{ rateLimit { plan } }', { key })),
    );
    expect(answers.every(({ status }) => status === 200)).toBe(true);
    expect(answers.filter(({ errors }) => errors === undefined)).toHaveLength(60);
    const refused = answers.flatMap(({ errors }) => errors ?? []);
    expect(refused.map(({ extensions }) => extensions.code)).toEqual(Array.from({ length: 40 }, () => 'RATE_LIMITED'));
  });

  it('is served exactly 60 times for a hundred aliases in one operation', async () => {
    const { key } = await gateway.createKey();
    await gateway.graphql('{ pets { id } }', { key });
    const aliases = Array.from({ length: 100 }, (_, i) => `a${i}: rateLimit { plan }`).join(' ');
    const { status, data, errors } = await gateway.graphql(`{ ${aliases} }`, { key });
    expect(status).toBe(200);
    expect(errors).toHaveLength(40);
    expect(Object.values(data as Record<string, unknown>).filter((value) => value !== null)).toHaveLength(60);
  });

  it('is guarded for each key separately', async () => {
    const [{ key }, other] = [await gateway.createKey(), await gateway.createKey()];
    const aliases = Array.from({ length: 61 }, (_, i) => `a${i}: rateLimit { plan }`).join(' ');
    expect((await gateway.graphql(`{ ${aliases} }`, { key })).errors).toHaveLength(1);
    expect((await gateway.graphql('{ rateLimit { plan } }', { key: other.key })).errors).toBeUndefined();
  });

  it('needs a key even next to introspection fields', async () => {
    const { status, errors } = await gateway.graphql('{ __typename rateLimit { plan } }');
    expect([status, errors?.[0]?.extensions.code]).toEqual([401, 'UNAUTHENTICATED']);
  });
});
