import pg from 'pg';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { takeDatabaseAccess, type DatabaseAccess } from '../support/database-access.js';
import { petStatements, startGateway, type Gateway } from '../support/gateway.js';

describe('GraphQL while the PostgreSQL server does not take connections', () => {
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

  it('is a field error for a key seen just now, masked, with the siblings in place and charged', async () => {
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

  it('is a field error for every lookup and every addPet of an operation', async () => {
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

  it.each(['', '@include(if: true)'])('ends an operation of addPets at the first one %s', async (directive) => {
    const { key } = await gateway.createKey();
    await gateway.graphql('{ pets { id } }', { key });
    const url = new URL(inject('postgresUrl'));
    url.pathname = `/${access.database}`;
    const blocker = new pg.Client({ connectionString: url.href });
    await blocker.connect();
    await blocker.query('BEGIN; LOCK TABLE pets IN ACCESS EXCLUSIVE MODE');
    gateway.statements.length = 0;
    const input = 'input: { name: "Rex", categoryId: 1 }';
    const { data, errors } = await gateway.graphql(
      `mutation { a: addPet(${input}) ${directive} { id } b: addPet(${input}) { id } c: addPet(input: { name: "", categoryId: 1 }) { id } }`,
      { key },
    );
    await blocker.end();
    expect(data).toEqual({ a: null, b: null, c: null });
    expect(errors?.map(({ extensions }) => extensions.code)).toEqual([
      'SERVICE_UNAVAILABLE',
      'SERVICE_UNAVAILABLE',
      'BAD_USER_INPUT',
    ]);
    expect(petStatements(gateway)).toHaveLength(1);
  });

  it('is HTTP 503 without data and limit headers when the key cannot be looked up', async () => {
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

  it('does not keep the schema from those who need no key', async () => {
    const schema = '{ __schema { queryType { name } } }';
    const { status, data } = await access.whileAway(() => gateway.graphql(schema));
    expect(status).toBe(200);
    expect(data).toEqual({ __schema: { queryType: { name: 'Query' } } });
  });

  it('is HTTP 503 for a key last seen more than five seconds ago', async () => {
    const { key } = await gateway.createKey();
    await gateway.graphql('{ rateLimit { plan } }', { key });
    const { status, errors } = await access.whileAway(async () => {
      await new Promise((resolve) => setTimeout(resolve, 5_100));
      return gateway.graphql('{ rateLimit { plan } }', { key });
    });
    expect(status).toBe(503);
    expect(errors?.[0]?.extensions.code).toBe('SERVICE_UNAVAILABLE');
  });

  it('gives up on a statement that hangs, as a field error', async () => {
    const { key } = await gateway.createKey();
    await gateway.graphql('{ pets { id } }', { key });
    const url = new URL(inject('postgresUrl'));
    url.pathname = `/${access.database}`;
    const blocker = new pg.Client({ connectionString: url.href });
    await blocker.connect();
    await blocker.query('BEGIN; LOCK TABLE pets IN ACCESS EXCLUSIVE MODE');
    const { status, data, errors } = await gateway.graphql('{ pets { id } rateLimit { plan } }', { key });
    await blocker.end();
    expect(status).toBe(200);
    expect(data).toEqual({ pets: null, rateLimit: { plan: 'BUSINESS' } });
    expect(errors?.[0]?.extensions.code).toBe('SERVICE_UNAVAILABLE');
  });
});
