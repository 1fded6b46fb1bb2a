import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { takeDatabaseAccess, type DatabaseAccess } from '../support/database-access.js';
import { petStatements, startGateway, type Gateway } from '../support/gateway.js';
import { whileLocked } from '../support/table-lock.js';

describe('GraphQL while PostgreSQL accepts no connections', () => {
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

  it('returns a masked field error for a recently used key, keeps sibling data and charges the operation', async () => {
    const { key } = await gateway.createKey({ plan: 'free' });
    const before = await gateway.graphql('{ pets { id } }', { key });
    expect(before.headers.get('x-ratelimit-remaining')).toBe('59');
    const { status, headers, data, errors, text } = await access.whileAway(() =>
      gateway.graphql('{ pets { id } rateLimit { plan } }', { key }),
    );
    expect(status).toBe(200);
    expect(data).toEqual({ pets: null, rateLimit: { plan: 'FREE' } });
    const [error] = errors ?? [];
    expect(error?.path).toEqual(['pets']);
    expect(error?.extensions).toEqual({
      code: 'SERVICE_UNAVAILABLE',
      error: { code: 'unavailable', message: error?.message, status: 503 },
      requestId: headers.get('x-request-id'),
    });
    expect(headers.get('x-ratelimit-remaining')).toBe('58');
    expect(text).not.toMatch(/127\.0\.0\.1|localhost|accepting|SELECT|stack|postgres/i);
    expect(text).not.toContain(access.database);

    const after = await gateway.graphql('{ pets { id } }', { key });
    expect(after.data).toEqual({ pets: [] });
  });

  it('returns a field error for each lookup and each addPet', async () => {
    const { key } = await gateway.createKey();
    await gateway.graphql('{ pets { id } }', { key });
    const addPet = 'mutation { addPet(input: { name: "Rex", categoryId: 1 }) { id } }';
    const [lookups, added] = await access.whileAway(async () => [
      await gateway.graphql('{ a: pet(id: 1) { id } b: pet(id: 2) { id } }', { key }),
      await gateway.graphql(addPet, { key }),
    ]);
    expect(lookups.data).toEqual({ a: null, b: null });
    expect(lookups.errors?.map(({ extensions }) => extensions.code)).toEqual([
      'SERVICE_UNAVAILABLE',
      'SERVICE_UNAVAILABLE',
    ]);
    expect(added.data).toEqual({ addPet: null });
    expect(added.errors?.[0]?.extensions.code).toBe('SERVICE_UNAVAILABLE');
  });

  it.each(['', '@include(if: true)'])('stops a mutation at its first failed addPet %s', async (directive) => {
    const { key } = await gateway.createKey();
    await gateway.graphql('{ pets { id } }', { key });
    gateway.statements.length = 0;
    const input = 'input: { name: "Rex", categoryId: 1 }';
    const mutation = `mutation {
      a: addPet(${input}) ${directive} { id } b: addPet(${input}) { id } c: addPet(input: { name: "", categoryId: 1 }) { id }
    }`;
    const { data, errors } = await whileLocked(access.url, () => gateway.graphql(mutation, { key }));
    expect(data).toEqual({ a: null, b: null, c: null });
    expect(errors?.map(({ extensions }) => extensions.code)).toEqual([
      'SERVICE_UNAVAILABLE',
      'SERVICE_UNAVAILABLE',
      'BAD_USER_INPUT',
    ]);
    expect(petStatements(gateway)).toHaveLength(1);
  });

  it('returns 503 without data or limit headers when the key cannot be looked up', async () => {
    const { key } = await gateway.createKey();
    const { status, headers, errors, text } = await access.whileAway(() => gateway.graphql('{ pets { id } }', { key }));
    expect(status).toBe(503);
    expect(JSON.parse(text)).not.toHaveProperty('data');
    expect(errors?.map(({ extensions }) => extensions)).toEqual([
      {
        code: 'SERVICE_UNAVAILABLE',
        error: { code: 'unavailable', message: errors?.[0]?.message, status: 503 },
        requestId: headers.get('x-request-id'),
      },
    ]);
    for (const name of ['x-ratelimit-limit', 'x-ratelimit-remaining', 'x-ratelimit-reset', 'ratelimit']) {
      expect(headers.has(name), name).toBe(false);
    }
    expect(headers.has('ratelimit-policy')).toBe(false);
    expect(text).not.toContain(key);
  });

  it('serves introspection without a key', async () => {
    const schema = '{ __schema { queryType { name } } }';
    const { status, data } = await access.whileAway(() => gateway.graphql(schema));
    expect(status).toBe(200);
    expect(data).toEqual({ __schema: { queryType: { name: 'Query' } } });
  });

  it('returns 503 for a key last used more than five seconds ago', async () => {
    const { key } = await gateway.createKey();
    await gateway.graphql('{ rateLimit { plan } }', { key });
    const { status, errors } = await access.whileAway(async () => {
      await new Promise((resolve) => setTimeout(resolve, 5_100));
      return gateway.graphql('{ rateLimit { plan } }', { key });
    });
    expect(status).toBe(503);
    expect(errors?.[0]?.extensions.code).toBe('SERVICE_UNAVAILABLE');
  });

  it('returns a field error when a statement times out', async () => {
    const { key } = await gateway.createKey();
    await gateway.graphql('{ pets { id } }', { key });
    const { status, data, errors } = await whileLocked(access.url, () =>
      gateway.graphql('{ pets { id } rateLimit { plan } }', { key }),
    );
    expect(status).toBe(200);
    expect(data).toEqual({ pets: null, rateLimit: { plan: 'BUSINESS' } });
    expect(errors?.[0]?.extensions.code).toBe('SERVICE_UNAVAILABLE');
  });
});
