import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createDatabase, MODES, startGateway, type Gateway } from '../support/gateway.js';
import { describeWithRedis, redisUrl } from '../support/redis.js';
import { callTool, EDITIONS, send } from './messages.js';

const isRefused = ({ status }: { readonly status: number }): boolean => status === 429;

describe.each(MODES)('limits of a %s backend', (mode) => {
  let gateway: Gateway;

  beforeAll(async () => {
    gateway = await startGateway(mode, { BAN_AFTER: '5' });
    return () => gateway.close();
  });

  const createKey = async (perMinute: number) =>
    (await gateway.createKey({ plan: 'enterprise', limits: { perMinute, perDay: 1_000 } })).key;

  it.each(EDITIONS)('%s: a refused call is a 429 and a tool error, and is not charged', async (edition) => {
    const key = await createKey(3);
    expect((await callTool(gateway, 'list_pets', {}, { key, edition })).status).toBe(200);
    const refused = await callTool(gateway, 'get_pets', { ids: ['1', '2', '3'] }, { key, edition });
    expect(refused.status).toBe(429);
    const retryAfter = Number(refused.headers.get('Retry-After'));
    expect(retryAfter).toBeGreaterThan(0);
    expect(refused.result).toMatchObject({
      isError: true,
      content: [{ type: 'text', text: expect.stringMatching(/^This costs 3, but only 2 of 3.* are left\. Retry in/) }],
      structuredContent: { code: 'rate_limited', retryAfter, cost: 3, remaining: 2 },
    });
    expect(refused.headers.get('X-RateLimit-Remaining')).toBe('2');
    expect((await callTool(gateway, 'get_pets', { ids: ['1', '2'] }, { key, edition })).status).toBe(200);
  });

  it('a call that costs more than a window holds is refused without a wait', async () => {
    const key = await createKey(3);
    await callTool(gateway, 'list_pets', {}, { key });
    const { status, headers, result } = await callTool(gateway, 'get_pets', { ids: ['1', '2', '3', '4'] }, { key });
    expect([status, headers.get('Retry-After')]).toEqual([200, null]);
    expect(result).toMatchObject({ isError: true, structuredContent: { code: 'operation_too_large', cost: 4 } });
  });

  it('a banned key gets 429 for calls and for discovery', async () => {
    const key = await createKey(1);
    // Only the store bans, so its refusals come from there.
    const place = gateway.upstream ?? gateway;
    await callTool(place, 'list_pets', {}, { key });
    for (let count = 0; count < 7; count++) await callTool(place, 'list_pets', {}, { key });
    for (const name of ['list_pets', 'limits', 'unknown_argument']) {
      const args = name === 'unknown_argument' ? { unknown: true } : {};
      const banned = await callTool(place, name === 'unknown_argument' ? 'list_pets' : name, args, { key });
      expect([name, banned.status]).toEqual([name, 429]);
      expect(banned.result).toMatchObject({ isError: true, structuredContent: { code: 'key_banned' } });
      expect(Number(banned.headers.get('Retry-After'))).toBeGreaterThan(60);
    }
    const { status, body } = await send(place, 'tools/list', {}, { key });
    expect(status).toBe(429);
    expect(body.error.data.code).toBe('key_banned');
    // A gateway learns of the ban with its first call.
    const { status: there, result } = await callTool(gateway, 'list_pets', {}, { key });
    expect([there, result]).toMatchObject([429, { isError: true, structuredContent: { code: 'key_banned' } }]);
  });

  it('limits says what is left in each window, 60 times a minute together with rateLimit', async () => {
    const { key } = await gateway.createKey({ plan: 'free' });
    await callTool(gateway, 'list_pets', {}, { key });
    const { result } = await callTool(gateway, 'limits', {}, { key });
    const windows = [
      { seconds: 60, limit: 60, remaining: 59, resetAt: expect.any(Number) },
      { seconds: 86_400, limit: 1_000, remaining: 999, resetAt: expect.any(Number) },
    ];
    expect(result.structuredContent).toEqual({ ...(mode !== 'proxy' && { plan: 'free' }), windows });
    await gateway.graphql('{ rateLimit { plan } }', { key });
    const answers = [];
    for (let count = 0; count < 60; count++) answers.push(await callTool(gateway, 'limits', {}, { key }));
    const refused = answers.filter(isRefused);
    expect(refused).toHaveLength(2);
    expect(refused[0]?.result.structuredContent).toMatchObject({
      code: 'rate_limited',
      retryAfter: expect.any(Number),
    });
    expect(refused[0]?.headers.get('X-RateLimit-Remaining')).toBe('59');
  });

  it('60 of 72 requests of a free key are admitted, over all interfaces together', async () => {
    const { key } = await gateway.createKey({ plan: 'free' });
    const place = gateway.upstream ?? gateway;
    await callTool(gateway, 'list_pets', {}, { key });
    const answers = await Promise.all(Array.from({ length: 71 }, (_, index) => ask(gateway, place, index, key)));
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(59);
    expect(answers.filter(isRefused)).toHaveLength(12);
  });
});

/** Takes the interfaces in turn. */
async function ask(gateway: Gateway, rest: Gateway, index: number, key: string) {
  const limit = 1 + (index % 100);
  if (index % 3 === 0) return gateway.graphql(`{ pets(limit: ${limit}) { id } }`, { key });
  if (index % 3 === 1) return rest.fetch(`/v1/pets?limit=${limit}`, { headers: { Authorization: `Bearer ${key}` } });
  return callTool(gateway, 'list_pets', { limit }, { key, edition: EDITIONS[index % 2] as '2025-11-25' });
}

describe('read-only keys', () => {
  let gateway: Gateway;

  beforeAll(async () => {
    gateway = await startGateway('server');
    return () => gateway.close();
  });

  it.each(EDITIONS)('%s: do not see add_pet, and may not call it', async (edition) => {
    const { key } = await gateway.createKey({ plan: 'free', readOnly: true });
    const { result } = await send(gateway, 'tools/list', {}, { key, edition });
    expect(result.tools.map(({ name }) => name)).toEqual(['list_pets', 'get_pets', 'limits']);
    const added = await callTool(gateway, 'add_pet', { name: 'Rex', categoryId: '1' }, { key, edition });
    expect([added.status, added.headers.get('X-RateLimit-Remaining')]).toEqual([200, '60']);
    expect(added.result).toMatchObject({ isError: true, structuredContent: { code: 'forbidden' } });
    expect(await gateway.sql('SELECT 1 FROM pets')).toEqual([]);
  });

  it('of the store behind a gateway may not add', async () => {
    const proxy = await startGateway('proxy');
    try {
      const { key } = await proxy.createKey({ plan: 'free', readOnly: true });
      const { status, headers, result } = await callTool(proxy, 'add_pet', { name: 'Rex', categoryId: '1' }, { key });
      expect([status, headers.get('X-RateLimit-Remaining')]).toEqual([200, '60']);
      expect(result).toMatchObject({ isError: true });
      expect(result.structuredContent).toEqual({ code: 'forbidden', cost: 0, remaining: 60 });
      expect(await proxy.sql('SELECT 1 FROM pets')).toEqual([]);
    } finally {
      await proxy.close();
    }
  });
});

/** Usage is written every five seconds. */
const WRITTEN = { timeout: 15_000, interval: 250 };

describe('the usage of a key', () => {
  let gateway: Gateway;

  beforeAll(async () => {
    gateway = await startGateway('server');
    return () => gateway.close();
  });

  const usageOf = (id: string) =>
    expect.poll(
      () =>
        gateway.sql(
          'SELECT client, operation, sum(requests)::int AS requests, sum(cost)::int AS cost, sum(errors)::int AS errors FROM usage WHERE key_id = $1 GROUP BY 1, 2 ORDER BY 1, 2',
          [id],
        ),
      WRITTEN,
    );

  it('has the tool and the name of the agent', async () => {
    const { id, key } = await gateway.createKey();
    await callTool(gateway, 'list_pets', {}, { key, agent: 'new-agent' });
    await callTool(gateway, 'get_pets', { ids: ['1', '2'] }, { key, agent: 'new-agent' });
    await callTool(gateway, 'list_pets', { limit: 0 }, { key, agent: 'new-agent' });
    const params = { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'old-agent', version: '1' } };
    await send(gateway, 'initialize', params, { key, edition: '2025-11-25' });
    await callTool(gateway, 'list_pets', {}, { key, edition: '2025-11-25' });
    await usageOf(id).toEqual([
      { client: 'new-agent', operation: 'mcp get_pets', requests: 1, cost: 2, errors: 0 },
      { client: 'new-agent', operation: 'mcp list_pets', requests: 2, cost: 1, errors: 1 },
      { client: 'old-agent', operation: 'mcp list_pets', requests: 1, cost: 1, errors: 0 },
    ]);
  });

  it('never has a key as the name', async () => {
    const { id, key } = await gateway.createKey();
    await callTool(gateway, 'list_pets', {}, { key, agent: `agent ${key}` });
    await usageOf(id).toEqual([{ client: '(redacted)', operation: 'mcp list_pets', requests: 1, cost: 1, errors: 0 }]);
  });

  it('behind a gateway has the name of the agent, too', async () => {
    const proxy = await startGateway('proxy');
    try {
      const { id, key } = await proxy.createKey();
      await callTool(proxy, 'list_pets', {}, { key, agent: 'far-agent' });
      const read = () => proxy.sql('SELECT client, operation FROM usage WHERE key_id = $1', [id]);
      await expect.poll(read, WRITTEN).toEqual([{ client: 'far-agent', operation: 'GET /v1/pets' }]);
    } finally {
      await proxy.close();
    }
  });
});

describeWithRedis('four instances that share a Redis', () => {
  let drop: () => Promise<void>;
  let instances: Gateway[] = [];

  beforeAll(async () => {
    const database = await createDatabase();
    ({ drop } = database);
    const env = {
      DATABASE_URL: database.url,
      REDIS_URL: redisUrl(),
      // This machine may be busy.
      REDIS_TIMEOUT_MS: '5000',
      DATABASE_POOL: '4',
    };
    instances = await Promise.all(Array.from({ length: 4 }, () => startGateway('server', env)));
  });
  afterAll(async () => {
    await Promise.all(instances.map((instance) => instance.close()));
    await drop();
  });

  const instance = (index: number): Gateway => instances[index % 4] as Gateway;

  it.each([1, 2, 3])('admit 60 of 72 requests of a free key, round %i', async () => {
    const { key } = await instance(0).createKey({ plan: 'free' });
    const answers = await Promise.all(
      Array.from({ length: 72 }, (_, index) => ask(instance(index), instance(index), index, key)),
    );
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(60);
    expect(answers.filter(isRefused)).toHaveLength(12);
  });

  it('add the same animal once, whichever instance gets the call', async () => {
    const { key } = await instance(0).createKey();
    const animal = { name: randomBytes(6).toString('hex'), categoryId: '1' };
    const answers = await Promise.all(
      Array.from({ length: 8 }, (_, index) => callTool(instance(index), 'add_pet', animal, { key, id: index })),
    );
    expect(new Set(answers.map(({ result }) => result.structuredContent.id)).size).toBe(1);
    expect(await instance(0).sql('SELECT 1 AS one FROM pets WHERE name = $1', [animal.name])).toHaveLength(1);
  });
});
