import { createHash } from 'node:crypto';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createPostgresKeyStore } from '../../src/store/postgres-key-store.js';
import type { Database } from '../../src/store/database.js';
import { migrate } from '../../src/store/migrate.js';
import { createPgDatabase } from '../../src/store/pg-database.js';
import type { Int64 } from '../../src/pets/int64.js';
import { PET_STATUSES } from '../../src/pets/pet.js';
import { createCall } from '../../src/pets/pet-source.js';
import { createPostgresPetSource } from '../../src/pets/postgres-pet-source.js';
import { createDatabase } from '../support/gateway.js';
import { until } from '../support/process.js';

const FEW = 30;
const MANY = 100_000;
/** PostgreSQL plans a prepared statement five times before it may keep one plan. */
const UNTIL_SETTLED = 7;
const PAGE = 20;
const IDS = ['3', '20', '30'] as Int64[];

/** Animals grouped by status, so that most of the table precedes the first animal with the last status. */
const INSERT_PETS = `
  INSERT INTO pets (name, category_id, status)
  SELECT 'Bella', 1, CASE WHEN n <= $1 * 0.08 THEN 'pending' WHEN n <= $1 * 0.98 THEN 'available' ELSE 'sold' END
  FROM generate_series(1, $1::int) AS n`;
const INSERT_KEYS = `
  INSERT INTO api_keys (id, digest, plan)
  SELECT 'key_' || n, sha256(n::text::bytea), 'free' FROM generate_series(1, $1::int) AS n
  ON CONFLICT DO NOTHING`;

describe.each([
  { title: 'few rows that became many after the statements were prepared', small: true, prepare: true },
  { title: 'few rows that became many, without prepared statements', small: true, prepare: false },
  { title: 'many rows from the start', small: false, prepare: true },
])('the plans of $title', ({ small, prepare }) => {
  let drop: () => Promise<void>;
  let admin: pg.Client;
  let database: Database;

  beforeAll(async () => {
    const created = await createDatabase();
    ({ drop } = created);
    admin = new pg.Client({ connectionString: created.url });
    await admin.connect();
    database = createPgDatabase({ url: created.url, pool: 1, prepare });
    await migrate(database);
    await admin.query('ALTER TABLE pets SET (autovacuum_enabled = false)');
    await admin.query('ALTER TABLE api_keys SET (autovacuum_enabled = false)');
    await fill(small ? FEW : MANY);
    await admin.query('ANALYZE pets, api_keys');
    for (let i = 0; i < UNTIL_SETTLED; i++) await askEverything();
    if (small) await fill(MANY);
  });
  afterAll(async () => {
    await admin.end();
    await drop();
  });

  it('read only the rows that they return', async () => {
    const answered = await askEverything();
    // A connection reports its statistics when it ends, at the latest.
    await database.close();
    expect(answered).toBe((1 + PET_STATUSES.length) * PAGE + IDS.length + 1);
    await until('the statistics are complete', async () => (await countRowsRead()) >= answered);
    expect(await countRowsRead()).toBeLessThan((UNTIL_SETTLED + 1) * answered + 1_000);
  });

  async function fill(count: number): Promise<void> {
    await admin.query(INSERT_PETS, [count]);
    await admin.query(INSERT_KEYS, [count]);
  }

  /** Runs every query of a request. Returns the number of rows. */
  async function askEverything(): Promise<number> {
    const pets = createPostgresPetSource(database);
    const keys = createPostgresKeyStore(database);
    const call = createCall('request');
    const lists = [];
    for (const status of [undefined, ...PET_STATUSES]) lists.push(...(await pets.list({ limit: PAGE, status }, call)));
    const found = await pets.findMany(IDS, call);
    const key = await keys.findByDigest(createHash('sha256').update('7').digest('base64url'));
    return lists.length + found.size + (key ? 1 : 0);
  }

  async function countRowsRead(): Promise<number> {
    const { rows } = await admin.query<{ count: number }>(
      `SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::int AS count FROM pg_stat_user_tables
       WHERE relname IN ('pets', 'api_keys')`,
    );
    return rows[0]?.count ?? 0;
  }
});
