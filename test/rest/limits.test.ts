import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { NewKey } from '../../src/store/postgres-key-store.js';
import { startGateway, STORES, type Gateway } from '../support/gateway.js';
import { createRestClient, expectError, expectLimitHeaders, type Answer, type RestClient } from './requests.js';

const PREFLIGHT = { Origin: 'http://localhost:3000', 'Access-Control-Request-Method': 'POST' };

describe.each(STORES)('limits of REST requests, %s store', (mode) => {
  let gateway: Gateway;

  beforeAll(async () => {
    gateway = await startGateway(mode, { MAX_BODY_BYTES: '2048', BAN_AFTER: '50', BAN_SECONDS: '120' });
    await gateway.sql(`INSERT INTO pets (id, name, category_id) VALUES (1000, 'Rex', 1)`);
  });
  afterAll(() => gateway.close());

  async function clientOf(newKey: Partial<NewKey>): Promise<RestClient & { key: string }> {
    const { key } = await gateway.createKey(newKey);
    return { ...createRestClient(gateway, key), key };
  }

  const enterprise = (perMinute: number, perDay: number) =>
    clientOf({ plan: 'enterprise', limits: { perMinute, perDay } });

  it.each([
    ['free', 60, 1_000],
    ['pro', 300, 10_000],
    ['business', 1_000, 100_000],
  ] as const)('states both windows of the plan %s', async (plan, perMinute, perDay) => {
    const { headers } = await (await clientOf({ plan })).get('/v1/pets');
    expectLimitHeaders(headers, { limit: perMinute, remaining: perMinute - 1 });
    expect(headers.get('ratelimit-policy')).toBe(`"minute";q=${perMinute};w=60, "day";q=${perDay};w=86400`);
    expect(headers.get('ratelimit')).toMatch(
      new RegExp(`^"minute";r=${perMinute - 1};t=(60|59|58), "day";r=${perDay - 1};t=(86400|8639\\d)$`),
    );
  });

  it.each<[string, number, number, (client: RestClient) => Promise<Answer>]>([
    ['200', 200, 59, (client) => client.get('/v1/pets')],
    ['200 of openapi.json', 200, 60, (client) => client.get('/v1/openapi.json')],
    ['201', 201, 59, (client) => client.post('{"name":"Rex","categoryId":1}')],
    ['204 of a preflight', 204, 60, (client) => client.send('OPTIONS', '/v1/pets', { headers: PREFLIGHT })],
    ['400', 400, 60, (client) => client.get('/v1/pets?limit=0')],
    ['404 of an animal', 404, 59, (client) => client.get('/v1/pets/999')],
    ['404 of a path', 404, 60, (client) => client.get('/v1/cats')],
    ['405', 405, 60, (client) => client.send('DELETE', '/v1/pets')],
    ['405 of OPTIONS', 405, 60, (client) => client.send('OPTIONS', '/v1/pets')],
    ['406', 406, 60, (client) => client.get('/v1/pets', { Accept: 'text/html' })],
    ['413', 413, 60, (client) => client.post('x'.repeat(3_000))],
    ['415', 415, 60, (client) => client.post('{}', { 'Content-Type': 'text/plain' })],
  ])('are in the headers of a response with %s', async (_, status, remaining, ask) => {
    const known = await ask(await clientOf({ plan: 'free' }));
    expect(known.status).toBe(status);
    expectLimitHeaders(known.headers, { limit: 60, remaining });
    expect(known.headers.get('ratelimit-policy')).toBe('"minute";q=60;w=60, "day";q=1000;w=86400');

    const unknown = await ask(createRestClient(gateway));
    expect(unknown.headers.get('x-ratelimit-limit')).toBe('60');
    expect(unknown.headers.get('x-ratelimit-remaining')).toMatch(/^\d+$/);
    expect(unknown.headers.get('x-ratelimit-reset')).toMatch(/^\d{10}$/);
    expect(unknown.headers.get('ratelimit-policy')).toBe('"minute";q=60;w=60');
    expect(unknown.headers.get('ratelimit')).toMatch(/^"minute";r=\d+;t=\d+$/);
  });

  it('put the window with the fewest requests left in X-RateLimit-*, or the shorter one on a tie', async () => {
    const day = await (await enterprise(100, 3)).get('/v1/pets');
    expect(day.headers.get('x-ratelimit-limit')).toBe('3');
    expect(day.headers.get('x-ratelimit-remaining')).toBe('2');
    expect(Number(day.headers.get('x-ratelimit-reset')) - Date.now() / 1_000).toBeGreaterThan(86_000);
    const tie = await (await enterprise(5, 5)).get('/v1/pets');
    expect(Number(tie.headers.get('x-ratelimit-reset')) - Date.now() / 1_000).toBeLessThan(62);
  });

  it('refuse a request with 429 and Retry-After, uncharged', async () => {
    const client = await enterprise(2, 100);
    await client.get('/v1/pets');
    await client.post('{"name":"Rex","categoryId":1}');
    for (const ask of [() => client.get('/v1/pets/1000'), () => client.post('{"name":"late","categoryId":1}')]) {
      const answer = await ask();
      expectError(answer, 429, 'rate_limited');
      const retryAfter = Number(answer.headers.get('retry-after'));
      expect(retryAfter).toBeGreaterThan(50);
      expect(retryAfter).toBeLessThanOrEqual(60);
      expect(answer.headers.get('x-ratelimit-remaining')).toBe('0');
      expect(answer.headers.get('ratelimit')).toContain('"day";r=98;');
    }
    expect(await gateway.sql(`SELECT id FROM pets WHERE name = 'late'`)).toEqual([]);
  });

  it('return the longer Retry-After when both windows are used up', async () => {
    const client = await enterprise(1, 1);
    await client.get('/v1/pets');
    const { headers } = await client.get('/v1/pets');
    expect(Number(headers.get('retry-after'))).toBeGreaterThan(86_000);
  });

  it('do not hide the error of an invalid request', async () => {
    const client = await enterprise(1, 1);
    await client.get('/v1/pets');
    expectError(await client.get('/v1/pets?limit=0'), 400, 'invalid_request');
    expectError(await client.post('{}'), 400, 'invalid_request');
  });

  it('count REST requests and GraphQL operations of one key together', async () => {
    const client = await enterprise(5, 100);
    await client.get('/v1/pets');
    const read = '{ a: pet(id: 1000) { id } b: pets(limit: 1) { id } }';
    const operation = await gateway.graphql(read, { key: client.key });
    expectLimitHeaders(operation.headers, { limit: 5, remaining: 2 });
    const rest = await client.get('/v1/pets/1000');
    expectLimitHeaders(rest.headers, { limit: 5, remaining: 1 });
    expect(rest.headers.get('x-ratelimit-reset')).toBe(operation.headers.get('x-ratelimit-reset'));
    expect((await gateway.graphql(read, { key: client.key })).status).toBe(429);
    expect((await client.get('/v1/pets')).status).toBe(200);
    expectError(await client.get('/v1/pets'), 429, 'rate_limited');
    expect((await gateway.graphql('{ pets { id } }', { key: client.key })).status).toBe(429);
  });

  it('admit exactly the 60 requests left out of a hundred concurrent ones', async () => {
    const client = await enterprise(60, 1_000);
    const statuses = await Promise.all(Array.from({ length: 100 }, async () => (await client.get('/v1/pets')).status));
    expect(statuses.filter((status) => status === 200)).toHaveLength(60);
    expect(statuses.filter((status) => status === 429)).toHaveLength(40);
  });

  it('ban only the key that keeps sending requests', async () => {
    const client = await enterprise(1, 10);
    await client.get('/v1/pets');
    for (let refusal = 1; refusal <= 50; refusal++) {
      expectError(await client.get('/v1/pets'), 429, 'rate_limited');
    }
    for (const answer of [await client.get('/v1/pets'), await client.get('/v1/pets?limit=0'), await client.post('{')]) {
      expectError(answer, 429, 'key_banned');
      const retryAfter = Number(answer.headers.get('retry-after'));
      expect(retryAfter).toBeGreaterThan(110);
      expect(retryAfter).toBeLessThanOrEqual(120);
      expect(answer.headers.get('x-ratelimit-limit')).toBe('1');
    }
    const operation = await gateway.graphql('{ pets { id } }', { key: client.key });
    expect(operation.errors?.[0]?.extensions.code).toBe('KEY_BANNED');
    expect((await (await enterprise(1, 10)).get('/v1/pets')).status).toBe(200);
  });
});

describe.each(STORES)('limits of REST requests without a valid key, %s store', (mode) => {
  let gateway: Gateway;

  beforeAll(async () => {
    gateway = await startGateway(mode);
  });
  afterAll(() => gateway.close());

  it('allow an address 60 responses with 401 a minute, then return 429, but never to a valid key', async () => {
    const keyless = createRestClient(gateway);
    const wrong = createRestClient(gateway, 'pets_wrong');
    for (let left = 59; left >= 0; left--) {
      await keyless.get('/v1/openapi.json');
      await keyless.get('/v1/cats');
      const answer = await (left % 2 === 0 ? keyless : wrong).get('/v1/pets');
      expectError(answer, 401, 'unauthorized');
      expectLimitHeaders(answer.headers, { limit: 60, remaining: left });
    }
    for (const answer of [await keyless.get('/v1/pets'), await wrong.get('/v1/pets'), await keyless.post('{}')]) {
      expectError(answer, 429, 'rate_limited');
      expect(Number(answer.headers.get('retry-after'))).toBeGreaterThan(0);
      expect(answer.headers.get('www-authenticate')).toBe('Bearer realm="animal-store"');
      expectLimitHeaders(answer.headers, { limit: 60, remaining: 0 });
    }
    expect((await gateway.graphql('{ pets { id } }')).status).toBe(429);
    expect((await keyless.get('/v1/openapi.json')).status).toBe(200);
    const { key } = await gateway.createKey();
    const valid = await createRestClient(gateway, key).get('/v1/pets');
    expect(valid.status).toBe(200);
    expectLimitHeaders(valid.headers, { limit: 1_000, remaining: 999 });
  });
});
