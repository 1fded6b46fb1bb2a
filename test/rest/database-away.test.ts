import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { generateApiKey } from '../../src/access/api-key.js';
import { takeDatabaseAccess, type DatabaseAccess } from '../support/database-access.js';
import { createDatabase, startGateway, STORES, type Gateway } from '../support/gateway.js';
import { createRestClient, expectError, expectLimitHeaders, type Answer } from './requests.js';

const LIMIT_HEADERS = [
  'x-ratelimit-limit',
  'x-ratelimit-remaining',
  'x-ratelimit-reset',
  'ratelimit',
  'ratelimit-policy',
];

describe('REST while PostgreSQL accepts no connections', () => {
  let gateway: Gateway;
  let access: DatabaseAccess;

  beforeAll(async () => {
    gateway = await startGateway('server');
    access = await takeDatabaseAccess(gateway);
  });
  afterAll(async () => {
    await access.close();
    await gateway.close();
  });

  function expectUnavailable(answer: Answer): void {
    expectError(answer, 503, 'unavailable');
    expect(answer.text).not.toMatch(/127\.0\.0\.1|accepting|postgres|SELECT|INSERT/i);
    expect(answer.text).not.toContain(access.database);
  }

  it('returns 503, charged, for a recently used key, and 200 once the database is back', async () => {
    const { key } = await gateway.createKey({ plan: 'free' });
    const client = createRestClient(gateway, key);
    expect((await client.get('/v1/pets')).status).toBe(200);
    await access.whileAway(async () => {
      const answers = [await client.get('/v1/pets'), await client.get('/v1/pets/1'), await client.post(REX)];
      answers.forEach((answer, index) => {
        expectUnavailable(answer);
        expectLimitHeaders(answer.headers, { limit: 60, remaining: 58 - index });
      });
      expectError(await client.get('/v1/pets?limit=0'), 400, 'invalid_request');
    });
    const back = await client.post(REX);
    expect(back.status).toBe(201);
    expectLimitHeaders(back.headers, { limit: 60, remaining: 55 });
  });

  it('returns 503 without limit headers, but with Sunset, when the key cannot be looked up', async () => {
    const { key } = await gateway.createKey();
    const client = createRestClient(gateway, key);
    await access.whileAway(async () => {
      for (const path of ['/v1/pets', '/v1/pets/1', '/v1/cats']) {
        const answer = await client.get(path);
        expectUnavailable(answer);
        for (const name of LIMIT_HEADERS) expect(answer.headers.has(name), `${name} of ${path}`).toBe(false);
        expect(answer.headers.get('sunset')).toBe(path === '/v1/pets/1' ? 'Thu, 05 Dec 2030 00:00:00 GMT' : null);
      }
    });
    expect((await client.get('/v1/pets')).status).toBe(200);
  });

  it('needs no database to refuse a missing or malformed key or to serve the OpenAPI document', async () => {
    const { key } = await gateway.createKey();
    await access.whileAway(async () => {
      expectError(await createRestClient(gateway).get('/v1/pets'), 401, 'unauthorized');
      expectError(await createRestClient(gateway, 'pets_wrong').get('/v1/pets'), 401, 'unauthorized');
      for (const sent of [undefined, key])
        expect((await createRestClient(gateway, sent).get('/v1/openapi.json')).status).toBe(200);
    });
  });

  it('returns 503 for a key last used more than five seconds ago', async () => {
    const { key } = await gateway.createKey();
    const client = createRestClient(gateway, key);
    await client.get('/v1/pets');
    await access.whileAway(async () => {
      await new Promise((resolve) => setTimeout(resolve, 5_100));
      const answer = await client.get('/v1/pets');
      expectUnavailable(answer);
      expect(answer.headers.has('x-ratelimit-limit')).toBe(false);
    });
  });

  it('logs the cause that it hides from the client', () => {
    const line = gateway.logged.find(({ code }) => code === 'unavailable');
    expect(JSON.stringify(line)).toMatch(/not currently accepting connections|terminat/);
  });
});

describe('REST and GraphQL with MIGRATE=false', () => {
  it('return 503 while the database is not migrated', async () => {
    const { url, drop } = await createDatabase({ migrated: false });
    const gateway = await startGateway('server', { DATABASE_URL: url, MIGRATE: 'false' });
    const key = generateApiKey();
    expectError(await createRestClient(gateway, key).get('/v1/pets'), 503, 'unavailable', /not ready/);
    const { status, errors } = await gateway.graphql('{ pets { id } }', { key });
    expect([status, errors?.[0]?.extensions.code]).toEqual([503, 'SERVICE_UNAVAILABLE']);
    await gateway.close();
    await drop();
  });

  it.each(STORES)('return 503 for what needs a table that is missing, %s store', async (mode) => {
    const gateway = await startGateway(mode, { MIGRATE: 'false' });
    const { key } = await gateway.createKey();
    await gateway.sql('ALTER TABLE pets RENAME TO animals');
    expectError(await createRestClient(gateway, key).get('/v1/pets'), 503, 'unavailable', /not ready/);
    const { status, errors } = await gateway.graphql('{ pets { id } }', { key });
    expect([status, errors?.[0]?.extensions.code]).toEqual([200, 'SERVICE_UNAVAILABLE']);
    await gateway.close();
  });
});

const REX = '{"name":"Rex","categoryId":1}';
