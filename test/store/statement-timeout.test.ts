import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createDatabase, startGateway, type Gateway } from '../support/gateway.js';

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

  const start = (): Promise<Gateway> =>
    startGateway('server', { DATABASE_URL: database.url, DATABASE_PREPARE: 'false' });
  const warnings = ({ logged }: Gateway): string[] =>
    logged.map(({ msg }) => String(msg)).filter((message) => message.includes('statement_timeout'));

  it('logs a warning if the server has no statement_timeout', async () => {
    const gateway = await start();
    await gateway.close();
    expect(warnings(gateway)).toHaveLength(1);
  });

  it('leaves no statement running if the server has one', async () => {
    const name = new URL(database.url).pathname.slice(1);
    await client.query(`ALTER DATABASE ${name} SET statement_timeout = '500ms'`);
    const gateway = await start();
    const { key } = await gateway.createKey();
    await gateway.graphql('{ rateLimit { plan } }', { key });
    await client.query('BEGIN; LOCK TABLE pets IN ACCESS EXCLUSIVE MODE');
    const { errors } = await gateway.graphql('{ pets { id } }', { key });
    const waiting = async (): Promise<number> => {
      const text = `SELECT count(*)::int AS count FROM pg_stat_activity
                    WHERE datname = current_database() AND wait_event_type = 'Lock'`;
      return (await client.query(text)).rows[0].count as number;
    };
    while ((await waiting()) > 0) await sleep(20);
    await client.query('ROLLBACK');
    await gateway.close();
    expect(errors?.[0]?.extensions.code).toBe('SERVICE_UNAVAILABLE');
    expect(warnings(gateway)).toEqual([]);
  });
});
