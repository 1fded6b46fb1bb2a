import pg from 'pg';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { startGateway, type Gateway } from '../support/gateway.js';

describe('GraphQL while the PostgreSQL server does not take connections', () => {
  let gateway: Gateway;
  let server: pg.Client;
  let database: string;

  beforeAll(async () => {
    gateway = await startGateway('server');
    const [row] = await gateway.sql<{ name: string }>('SELECT current_database() AS name');
    database = row?.name ?? '';
    server = new pg.Client({ connectionString: inject('postgresUrl') });
    await server.connect();
  });
  afterAll(async () => {
    await allowConnections(true);
    await server.end();
    await gateway.close();
  });

  it('is a field error for a key seen just now, masked, with the siblings in place and charged', async () => {
    const { key } = await gateway.createKey({ plan: 'free' });
    const before = await gateway.graphql('{ pets { id } }', { key });
    expect(before.headers.get('x-ratelimit-remaining')).toBe('59');
    await allowConnections(false);

    const { status, headers, data, errors, text } = await gateway.graphql('{ pets { id } rateLimit { plan } }', {
      key,
    });
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
    expect(text).not.toContain(database);

    await allowConnections(true);
    const after = await gateway.graphql('{ pets { id } }', { key });
    expect(after.data).toEqual({ pets: [] });
  });

  it('is a field error for every lookup and every addPet of an operation', async () => {
    const { key } = await gateway.createKey();
    await gateway.graphql('{ pets { id } }', { key });
    await allowConnections(false);
    const lookups = await gateway.graphql('{ a: pet(id: 1) { id } b: pet(id: 2) { id } }', { key });
    const addPet = 'mutation { addPet(input: { name: "Rex", categoryId: 1 }) { id } }';
    const added = await gateway.graphql(addPet, { key });
    await allowConnections(true);
    expect(lookups.data).toEqual({ a: null, b: null });
    expect(lookups.errors?.map(({ extensions }) => extensions.code)).toEqual([
      'SERVICE_UNAVAILABLE',
      'SERVICE_UNAVAILABLE',
    ]);
    expect(added.data).toEqual({ addPet: null });
    expect(added.errors?.[0]?.extensions.code).toBe('SERVICE_UNAVAILABLE');
  });

  it('is HTTP 503 without data and limit headers when the key cannot be looked up', async () => {
    const { key } = await gateway.createKey();
    await allowConnections(false);
    const { status, headers, errors, text } = await gateway.graphql('{ pets { id } }', { key });
    await allowConnections(true);
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
    await allowConnections(false);
    const { status, data } = await gateway.graphql('{ __schema { queryType { name } } }');
    await allowConnections(true);
    expect(status).toBe(200);
    expect(data).toEqual({ __schema: { queryType: { name: 'Query' } } });
  });

  it('is HTTP 503 for a key last seen more than five seconds ago', async () => {
    const { key } = await gateway.createKey();
    await gateway.graphql('{ rateLimit { plan } }', { key });
    await allowConnections(false);
    await new Promise((resolve) => setTimeout(resolve, 5_100));
    const { status, errors } = await gateway.graphql('{ rateLimit { plan } }', { key });
    await allowConnections(true);
    expect(status).toBe(503);
    expect(errors?.[0]?.extensions.code).toBe('SERVICE_UNAVAILABLE');
  });

  it('gives up on a statement that hangs, as a field error', async () => {
    const { key } = await gateway.createKey();
    await gateway.graphql('{ pets { id } }', { key });
    const url = new URL(inject('postgresUrl'));
    url.pathname = `/${database}`;
    const blocker = new pg.Client({ connectionString: url.href });
    await blocker.connect();
    await blocker.query('BEGIN; LOCK TABLE pets IN ACCESS EXCLUSIVE MODE');
    const { status, data, errors } = await gateway.graphql('{ pets { id } rateLimit { plan } }', { key });
    await blocker.end();
    expect(status).toBe(200);
    expect(data).toEqual({ pets: null, rateLimit: { plan: 'BUSINESS' } });
    expect(errors?.[0]?.extensions.code).toBe('SERVICE_UNAVAILABLE');
  });

  async function allowConnections(allowed: boolean): Promise<void> {
    await server.query(`ALTER DATABASE ${database} ALLOW_CONNECTIONS ${String(allowed)}`);
    if (allowed) return;
    await server.query('SELECT pg_terminate_backend(pid, 1000) FROM pg_stat_activity WHERE datname = $1', [database]);
  }
});
