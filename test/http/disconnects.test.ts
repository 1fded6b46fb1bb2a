import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createDatabase, startGateway, type Gateway } from '../support/gateway.js';
import { until } from '../support/process.js';

describe('a client that disconnects while the store is busy', () => {
  let database: { url: string; drop: () => Promise<void> };
  let client: pg.Client;
  let gateway: Gateway;
  let key: string;

  beforeAll(async () => {
    database = await createDatabase();
    client = new pg.Client({ connectionString: database.url });
    await client.connect();
    gateway = await startGateway('server', { DATABASE_URL: database.url, LOG_LEVEL: 'info' });
    ({ key } = await gateway.createKey());
  });
  afterAll(async () => {
    await gateway.close();
    await client.end();
    await database.drop();
  });

  it.each([
    ['a REST list', '/v1/pets', undefined],
    ['a REST lookup', '/v1/pets/1', undefined],
    ['a REST addition', '/v1/pets', { name: 'Rex', categoryId: 1 }],
    ['a GraphQL list', '/graphql', { query: '{ pets { id } }' }],
    ['a GraphQL batch', '/graphql', [{ query: '{ pets { id } }' }, { query: '{ pet(id: "1") { id } }' }]],
  ])('is logged with status 499, and as no failure of the program: %s', async (_, path, body) => {
    const ask = (signal: AbortSignal | null): Promise<Response> =>
      gateway.fetch(path, {
        method: body ? 'POST' : 'GET',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        body: body ? JSON.stringify(body) : null,
        signal,
      });
    await client.query('BEGIN; LOCK TABLE pets IN ACCESS EXCLUSIVE MODE');
    const first = ask(null);
    await until('a statement waits', async () => {
      const { rows } = await client.query(WAITING);
      return (rows as { count: number }[])[0]?.count !== 0;
    });
    gateway.logged.length = 0;
    // While a statement runs, the next one waits for up to 20 ms, so some of these leave before and some after it began.
    for (let milliseconds = 4; milliseconds <= 40; milliseconds += 4) {
      const leaving = ask(AbortSignal.timeout(milliseconds));
      await expect(leaving).rejects.toThrow('aborted');
    }
    await until('all are logged', () => gateway.logged.filter(({ msg }) => msg === 'request').length === 10);
    await client.query('ROLLBACK');
    await first;
    await gateway.graphql('{ pets { id } }', { key });
    expect(gateway.logged.filter(({ level }) => Number(level) > 40)).toEqual([]);
    expect(gateway.logged[0]).toMatchObject({ path, status: 499 });
  });
});

const WAITING = `SELECT count(*)::int AS count FROM pg_stat_activity
                 WHERE datname = current_database() AND wait_event_type = 'Lock'`;
