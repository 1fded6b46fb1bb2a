import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createPgDatabase } from '../../src/store/pg-database.js';
import { createDatabase, startGateway } from '../support/gateway.js';
import { until } from '../support/process.js';
import { runSql } from '../support/sql.js';
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

describe('a statement that takes too long', () => {
  it.each(['ü'.repeat(40), '猫'.repeat(40), 'a'.repeat(100), '100% _', ''])(
    'is cancelled if the application_name in the URL is %j',
    async (name) => {
      const { url, drop } = await createDatabase();
      const named = new URL(url);
      named.searchParams.set('application_name', name);
      const store = createPgDatabase({ url: named.href, pool: 1, prepare: true, statementTimeoutMs: 100 });
      const run = (text: string): Promise<unknown> => store.query({ name: '', text }, []);
      // As in a commit that waits for a standby, nothing but the program ends the statement.
      await run('SET statement_timeout = 0');
      await expect(run('SELECT pg_sleep(60)')).rejects.toThrow();
      const sleeping = `SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'`;
      await until('the server has ended it', async () => (await runSql(url, sleeping)).length === 0, 15_000);
      await store.close();
      await drop();
    },
  );
});
