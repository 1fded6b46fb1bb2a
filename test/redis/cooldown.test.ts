import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { startGateway, startProxyBefore, type Gateway, type ProxyOnly } from '../support/gateway.js';
import { send, startScriptedUpstream } from '../support/scripted-upstream.js';
import { connectRedis, describeWithRedis, redisUrl } from '../support/redis.js';

const ONE = '{ pets(limit: 1) { id } }';

describeWithRedis('two gateways in front of one store', () => {
  let store: Gateway;
  let gateways: [ProxyOnly, ProxyOnly];

  beforeAll(async () => {
    store = await startGateway('server', { BAN_AFTER: '1', BAN_SECONDS: '200' });
  });
  beforeEach(async () => {
    const start = (): Promise<ProxyOnly> => startProxyBefore(`${store.url}/v1`, { REDIS_URL: redisUrl() });
    gateways = [await start(), await start()];
    store.logged.length = 0;
    return async () => {
      await Promise.all(gateways.map((gateway) => gateway.close()));
    };
  });
  afterAll(() => store.close());

  /** Creates a key that has used its only request. No gateway knows this. */
  async function exhaustedKey(): Promise<string> {
    const { key } = await store.createKey({ plan: 'enterprise', limits: { perMinute: 1, perDay: 10 } });
    await store.fetch('/v1/pets', { headers: { Authorization: `Bearer ${key}` } });
    return key;
  }

  const refusalsOfStore = (): number => store.logged.filter(({ status }) => status === 429).length;
  const outcome = async (gateway: ProxyOnly, query: string, key: string) => {
    const { status, errors, headers } = await gateway.graphql(query, { key });
    return { status, code: errors?.[0]?.extensions.code, retryAfter: Number(headers.get('retry-after')) };
  };

  it('both refuse a key that the store refused to one of them, without an upstream request', async () => {
    const key = await exhaustedKey();
    expect(await outcome(gateways[0], ONE, key)).toMatchObject({ status: 429, code: 'RATE_LIMITED' });
    expect(refusalsOfStore()).toBe(1);
    for (const gateway of [gateways[1], gateways[0], gateways[1]]) {
      const { status, code, retryAfter } = await outcome(gateway, ONE, key);
      expect([status, code]).toEqual([429, 'RATE_LIMITED']);
      expect(retryAfter).toBeGreaterThan(0);
      expect(retryAfter).toBeLessThanOrEqual(60);
    }
    expect(refusalsOfStore()).toBe(1);
    expect((await outcome(gateways[1], '{ __typename }', key)).status).toBe(200);
    const { key: other } = await store.createKey();
    expect((await outcome(gateways[1], ONE, other)).status).toBe(200);
  });

  it('tell clients the same wait, though one operation a minute is tried', async () => {
    const upstream = await startScriptedUpstream((_, response) =>
      send(response, 429, { code: 'c', message: 'm', status: 429 }, { 'Retry-After': '3600' }),
    );
    const start = (): Promise<ProxyOnly> => startProxyBefore(upstream.url, { REDIS_URL: redisUrl() });
    const both = [await start(), await start()] as const;
    const key = `any-${Math.random()}`;
    for (const gateway of both) expect((await outcome(gateway, ONE, key)).retryAfter).toBeGreaterThan(3_590);
    expect(upstream.seen).toHaveLength(1);
    await Promise.all([...both, upstream].map((one) => one.close()));
  });

  it('refuse every operation of a key that the store banned', async () => {
    const key = await exhaustedKey();
    for (let i = 0; i < 2; i++) await store.fetch('/v1/pets', { headers: { Authorization: `Bearer ${key}` } });
    expect(await outcome(gateways[0], ONE, key)).toMatchObject({ status: 429, code: 'KEY_BANNED' });
    const refused = refusalsOfStore();
    for (const query of ['{ nothing }', ONE, '{ __typename }']) {
      const { status, code, retryAfter } = await outcome(gateways[1], query, key);
      expect([status, code]).toEqual([429, 'KEY_BANNED']);
      expect(retryAfter).toBeGreaterThan(100);
    }
    expect(refusalsOfStore()).toBe(refused);
  });

  it('both refuse a key that the store refused to one of them during an outage of Redis', async () => {
    const key = await exhaustedKey();
    await outcome(gateways[0], ONE, key);
    const client = await connectRedis(redisUrl());
    await client.del(await client.keys('animals:proxy:wait:*'));
    client.disconnect();
    const refused = refusalsOfStore();
    for (const gateway of gateways) expect((await outcome(gateway, ONE, key)).status).toBe(429);
    expect(refusalsOfStore()).toBe(refused);
  });

  it('store no key in Redis', async () => {
    const key = await exhaustedKey();
    await outcome(gateways[0], ONE, key);
    const client = await connectRedis(redisUrl());
    const names = (await client.keys('animals:proxy:*')).join('\n');
    client.disconnect();
    expect(names).toMatch(/animals:proxy:wait:\{[\w-]{43}\}/);
    expect(names).not.toContain(key);
  });
});

describeWithRedis('two gateways with DEFAULT_PLAN', () => {
  it('count requests together if the store states no limits', async () => {
    const upstream = await startScriptedUpstream((_, response) => send(response, 200, '[]'));
    const env = { REDIS_URL: redisUrl(), DEFAULT_PLAN: 'free' };
    const gateways = [await startProxyBefore(upstream.url, env), await startProxyBefore(upstream.url, env)];
    try {
      const key = `any-${Math.random()}`;
      for (const gateway of gateways) await gateway.graphql(ONE, { key });
      const answers = await Promise.all(
        Array.from({ length: 80 }, (_, i) => (gateways[i % 2] as ProxyOnly).graphql(ONE, { key })),
      );
      const left = answers
        .filter(({ status }) => status === 200)
        .map(({ headers }) => Number(headers.get('x-ratelimit-remaining')));
      expect(left.sort((a, b) => a - b)).toEqual(Array.from({ length: 58 }, (_, i) => i));
    } finally {
      await Promise.all(gateways.map((gateway) => gateway.close()));
      await upstream.close();
    }
  });
});
