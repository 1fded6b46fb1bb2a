import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { runSql } from '../support/sql.js';
import { linesOf, makePlace, until, type Place, type Program } from '../support/process.js';

interface Line {
  readonly level: number;
  readonly code?: string;
  readonly requests?: number;
  readonly err?: { readonly stack: string };
}

describe('the log of requests that fail', () => {
  let place: Place;
  let database: string;
  let program: Program;
  let key: string;

  beforeAll(async () => {
    place = await makePlace();
    database = await place.database();
    program = await place.start({ PORT: '0', DATABASE_URL: database, NODE_ENV: 'production' });
    const created = await place.keys(['create', '--plan', 'business', '--json'], { DATABASE_URL: database });
    ({ key } = JSON.parse(created.stdout) as { key: string });
  });
  afterAll(() => place.close());

  const ask = () => program.fetch('/v1/pets', { headers: { Authorization: `Bearer ${key}` } });
  const failures = (code: string): Line[] =>
    linesOf(program.stdout)
      .filter((line) => line.startsWith('{'))
      .map((line) => JSON.parse(line) as Line)
      .filter((line) => line.code === code);

  it('has an internal error of each request, with its stack', async () => {
    await runSql(database, 'ALTER TABLE pets RENAME TO animals');
    await runSql(database, 'CREATE VIEW pets AS SELECT * FROM animals WHERE (SELECT 1 / count(*) FROM animals) = 1');
    for (let n = 0; n < 5; n++) expect((await ask()).status).toBe(500);
    await until('all have a line', () => failures('internal_error').length === 5);
    for (const { level, err } of failures('internal_error')) {
      expect([level, err?.stack]).toEqual([50, expect.stringContaining('\n    at ')]);
    }
    await runSql(database, 'DROP VIEW pets');
    await runSql(database, 'ALTER TABLE animals RENAME TO pets');
  });

  it('has at most one line a second of an outage, without a stack, which counts the requests', async () => {
    const name = new URL(database).pathname.slice(1);
    const client = new pg.Client({ connectionString: inject('postgresUrl') });
    await client.connect();
    await client.query(`ALTER DATABASE ${name} ALLOW_CONNECTIONS false`);
    await client.query(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '${name}'`);
    await until('requests fail', async () => (await ask()).status === 503);
    const startedAt = performance.now();
    let requests = 1;
    for (; performance.now() - startedAt < 2_500; requests++) expect((await ask()).status).toBe(503);
    expect(requests).toBeGreaterThan(10);
    // The next line counts the requests since the last.
    await sleep(1_000);
    expect((await ask()).status).toBe(503);
    requests += 1;
    const counted = () => failures('unavailable').reduce((total, { requests: others = 1 }) => total + others, 0);
    await until('all are counted', () => counted() === requests);
    const seconds = (performance.now() - startedAt) / 1_000;
    expect(failures('unavailable').length).toBeLessThanOrEqual(seconds + 1);
    for (const line of failures('unavailable')) expect(JSON.stringify(line)).not.toMatch(/stack| {4}at /);
    await client.query(`ALTER DATABASE ${name} ALLOW_CONNECTIONS true`);
    await client.end();
  });
});
