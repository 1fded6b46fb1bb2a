import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createPgDatabase } from '../../src/store/pg-database.js';
import { createDatabase, startGateway } from '../support/gateway.js';
import { noStatementWaits, statementWaits, whileLocked } from '../support/table-lock.js';

describe('a store without prepared statements', () => {
  let database: { url: string; drop: () => Promise<void> };
  let client: pg.Client;

  beforeAll(async () => {
    database = await createDatabase();
    client = new pg.Client({ connectionString: database.url });
    await client.connect();
  });
  afterAll(async () => {
    await client.end();
    await database.drop();
  });

  it('leaves no statement running if the server has one', async () => {
    const name = new URL(database.url).pathname.slice(1);
    await client.query(`ALTER DATABASE ${name} SET statement_timeout = '500ms'`);
    const gateway = await startGateway('server', { DATABASE_URL: database.url, DATABASE_PREPARE: 'false' });
    const { key } = await gateway.createKey();
    await gateway.graphql('{ rateLimit { plan } }', { key });
    const { errors } = await whileLocked(database.url, async () => {
      const answering = gateway.graphql('{ pets { id } }', { key });
      await statementWaits(database.url);
      const answer = await answering;
      await noStatementWaits(database.url);
      return answer;
    });
    await gateway.close();
    expect(errors?.[0]?.extensions.code).toBe('SERVICE_UNAVAILABLE');
  });

  it('does not reuse the connection of a cancelled statement, which a late cancellation might still reach', async () => {
    const store = createPgDatabase({ url: database.url, pool: 1, prepare: false, statementTimeoutMs: 100 });
    const readPid = async (): Promise<number | undefined> => {
      const rows = await store.query<{ pid: number }>({ name: 'pid', text: 'SELECT pg_backend_pid() AS pid' }, []);
      return rows[0]?.pid;
    };
    const first = await readPid();
    await expect(store.query({ name: 'sleep', text: 'SELECT pg_sleep(10)' }, [])).rejects.toThrow();
    const second = await readPid();
    await store.close();
    expect(second).toEqual(expect.any(Number));
    expect(second).not.toBe(first);
  });
});
