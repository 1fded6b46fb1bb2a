import { spawn } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Database } from '../../src/store/database.js';
import { listPendingMigrations, migrate } from '../../src/store/migrate.js';
import { createPgDatabase } from '../../src/store/pg-database.js';
import { openPgliteDatabase } from '../../src/store/embedded-store.js';
import { createDatabase, startGateway } from '../support/gateway.js';
import { until } from '../support/process.js';
import { statementWaits } from '../support/table-lock.js';

const FIVE = [1, 2, 3, 4, 5];
const TABLES = ['api_keys', 'idempotent_adds', 'key_log', 'key_version', 'pets', 'schema_version', 'usage'];

describe('migrating a fresh PostgreSQL database', () => {
  let url: string;
  let drop: () => Promise<void>;
  let opened: Database[];

  beforeEach(async () => {
    ({ url, drop } = await createDatabase({ migrated: false }));
    opened = [];
  });
  afterEach(async () => {
    for (const database of opened) await database.close();
    await drop();
  });

  function open(options: Partial<Parameters<typeof createPgDatabase>[0]> = {}): Database {
    const database = createPgDatabase({ url, pool: 1, prepare: true, ...options });
    opened.push(database);
    return database;
  }

  /** Runs SQL on a separate connection. */
  async function ask(text: string): Promise<Record<string, unknown>[]> {
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    const { rows } = await client.query<Record<string, unknown>>(text);
    await client.end();
    return rows;
  }

  it('creates the tables and records each migration once', async () => {
    await migrate(open());
    expect(await tablesOf(ask)).toEqual(TABLES);
    const versions = await ask('SELECT version FROM schema_version ORDER BY version');
    expect(versions.length).toBeGreaterThanOrEqual(2);
    expect(new Set(versions.map(({ version }) => version)).size).toBe(versions.length);
  });

  it('is safe for five concurrent instances, and each finds the tables', async () => {
    await Promise.all(FIVE.map(() => migrate(open())));
    expect(await Promise.all(opened.map((database) => database.query(COUNT, [])))).toEqual(
      FIVE.map(() => [{ count: 0 }]),
    );
    const versions = await ask('SELECT version, count(*)::int AS count FROM schema_version GROUP BY version');
    expect(new Set(versions.map(({ count }) => count))).toEqual(new Set([1]));
  });

  it('changes nothing when it runs again', async () => {
    await migrate(open());
    await ask(`INSERT INTO pets (name, category_id) VALUES ('Rex', 1)`);
    const before = await describeDatabase(ask);
    for (let run = 0; run < 3; run++) await migrate(open());
    expect(await describeDatabase(ask)).toEqual(before);
  });

  it('returns the connection to the pool with its original search path', async () => {
    const database = open();
    const before = await database.query(SEARCH_PATH, []);
    await migrate(database);
    expect(await database.query(SEARCH_PATH, [])).toEqual(before);
  });

  it.each(['animals', "Our animals' schema"])('uses the schema that the database sets: %s', async (schema) => {
    await ask(`CREATE SCHEMA "${schema}"`);
    await ask(`ALTER DATABASE ${new URL(url).pathname.slice(1)} SET search_path = "${schema}", public`);
    const database = open();
    const before = await database.query(SEARCH_PATH, []);
    await migrate(database);
    await migrate(open());
    expect(await database.query(SEARCH_PATH, [])).toEqual(before);
    expect(await tablesOf(ask, schema.replace("'", "''"))).toEqual(TABLES);
    expect(await tablesOf(ask, 'public')).toEqual([]);
    expect(await database.query(COUNT, [])).toEqual([{ count: 0 }]);
  });

  it('says so if the database sets no schema', async () => {
    await ask(`ALTER DATABASE ${new URL(url).pathname.slice(1)} SET search_path = nowhere`);
    await expect(migrate(open())).rejects.toThrow('the database has no schema that its search_path names');
  });

  it('waits for another instance longer than the statement timeout', async () => {
    await migrate(open());
    const blocker = new pg.Client({ connectionString: url });
    await blocker.connect();
    await blocker.query('BEGIN; LOCK TABLE schema_version IN ACCESS EXCLUSIVE MODE');
    const waiting = migrate(open());
    await new Promise((resolve) => setTimeout(resolve, 2_500));
    await blocker.end();
    await expect(waiting).resolves.toEqual([]);
  });

  describe('with files of its own', () => {
    let folder: string;

    beforeEach(async () => {
      folder = await mkdtemp(join(tmpdir(), 'migrations [a-b] {c,d} (e)? f*-'));
      await writeFile(join(folder, '001.do.one.sql'), 'CREATE TABLE one (id int);');
    });
    afterEach(() => rm(folder, { recursive: true }));

    it('blocks nobody for longer than two seconds while it waits for a lock, then gives up and names the file', async () => {
      await migrate(open(), { folder });
      await writeFile(join(folder, '002.do.two.sql'), 'ALTER TABLE one ADD two int;');
      const report = new pg.Client({ connectionString: url });
      await report.connect();
      await report.query('BEGIN; SELECT * FROM one');
      const reasons: string[] = [];
      const migrating = migrate(open(), { folder, waitMs: 4_000, onWait: (reason) => reasons.push(reason) });
      const failed = expect(migrating).rejects.toThrow(
        /002\.do\.two\.sql failed: canceling statement due to lock timeout/,
      );
      await new Promise((resolve) => setTimeout(resolve, 500));
      const startedAt = performance.now();
      await ask('SELECT * FROM one');
      expect(performance.now() - startedAt).toBeLessThan(2_500);
      await failed;
      expect(reasons).toEqual([expect.stringContaining('002.do.two.sql waits')]);
      await report.end();
      expect(await migrate(open(), { folder })).toEqual(['002.do.two.sql']);
    });

    it.each(['40001', '40P01'])('repeats a file that PostgreSQL asks to repeat with %s', async (code) => {
      await migrate(open(), { folder });
      await ask('CREATE SEQUENCE attempts');
      const raise = `IF nextval('attempts') < 3 THEN RAISE EXCEPTION SQLSTATE '${code}'; END IF;`;
      await writeFile(join(folder, '002.do.two.sql'), `ALTER TABLE one ADD two int; DO $$ BEGIN ${raise} END $$;`);
      expect(await migrate(open(), { folder })).toEqual(['002.do.two.sql']);
      expect(await ask('SELECT last_value::int FROM attempts')).toEqual([{ last_value: 3 }]);
    });

    it.each(['a statement', 'a migration'])(
      '%s that PostgreSQL ends because of a deadlock is repeated',
      async (kind) => {
        await migrate(open(), { folder });
        await ask('CREATE TABLE two (id int)');
        // Only sessions of the program find deadlocks, while the other one already waits.
        await ask(`ALTER DATABASE ${new URL(url).pathname.slice(1)} SET deadlock_timeout = '1500ms'`);
        const other = new pg.Client({ connectionString: url });
        await other.connect();
        await other.query(`SET deadlock_timeout = '1h'; BEGIN; LOCK TABLE two`);
        const text = 'DO $$ BEGIN LOCK TABLE one; LOCK TABLE two; END $$';
        await writeFile(join(folder, '002.do.two.sql'), text);
        const program = open({ statementTimeoutMs: 10_000 });
        const running =
          kind === 'a migration' ? migrate(program, { folder }) : program.query({ name: 'lock', text }, []);
        await statementWaits(url);
        await other.query('LOCK TABLE one');
        await other.query('COMMIT');
        await other.end();
        expect(await running).toEqual(kind === 'a migration' ? ['002.do.two.sql'] : []);
      },
    );

    it('keeps the files before one that fails', async () => {
      await writeFile(join(folder, '002.do.two.sql'), 'CREATE TABLE two (id int); SELECT 1 / 0;');
      await expect(migrate(open(), { folder })).rejects.toThrow('migration 002.do.two.sql failed: division by zero');
      expect(await tablesOf(ask)).toEqual(['one', 'schema_version']);
      expect(await listPendingMigrations(open(), folder)).toEqual(['002.do.two.sql']);
    });

    it('refuses a file that was changed after it ran', async () => {
      await migrate(open(), { folder });
      await writeFile(join(folder, '001.do.one.sql'), 'CREATE TABLE one (id bigint);');
      await expect(migrate(open(), { folder })).rejects.toThrow(/changed after it had run.*migration \[1\]/);
    });

    it('leaves no lock on the server if its process is killed', async () => {
      await writeFile(join(folder, '002.do.two.sql'), 'ALTER TABLE one ADD two int; SELECT pg_sleep(60);');
      const script = `import { migrate } from './src/store/migrate.ts';
        import { createPgDatabase } from './src/store/pg-database.ts';
        await migrate(createPgDatabase({ url: ${JSON.stringify(url)}, pool: 1, prepare: true }), { folder: ${JSON.stringify(folder)} });`;
      const child = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', script]);
      const sleeping = async (): Promise<number> =>
        (await ask(`SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()`))
          .length;
      await until('the migration runs', async () => (await sleeping()) === 1);
      child.kill('SIGKILL');
      await until('the server has ended it', async () => (await sleeping()) === 0, 5_000);
      await ask('ALTER TABLE one ADD two int');
    });
  });

  it('undoes everything if it fails, and leaves the connection usable', async () => {
    await ask('CREATE TABLE api_keys (mine text)');
    const database = open();
    const before = await database.query(SEARCH_PATH, []);
    await expect(migrate(database)).rejects.toThrow('api_keys');
    expect(await tablesOf(ask)).toEqual(['api_keys']);
    expect(await database.query(SEARCH_PATH, [])).toEqual(before);
    await ask('DROP TABLE api_keys');
    await migrate(database);
    expect(await tablesOf(ask)).toEqual(TABLES);
  });
});

describe('migrating PGlite', () => {
  it('creates the tables once, and does not change the search path', async () => {
    const database = await openPgliteDatabase('memory://');
    const ask = (text: string): Promise<Record<string, unknown>[]> => database.query({ name: '', text }, []);
    const before = await ask('SHOW search_path');
    await migrate(database);
    const made = await describeDatabase(ask);
    await migrate(database);
    expect(await describeDatabase(ask)).toEqual(made);
    expect(await tablesOf(ask)).toEqual(TABLES);
    expect(await ask('SHOW search_path')).toEqual(before);
    await database.close();
  });
});

describe.each([
  ['true', ['list-pets', 'find-pets', 'add-pet', 'find-keys']],
  ['false', []],
])('DATABASE_PREPARE=%s', (prepare, expected) => {
  it('serves every operation, and prepares only permitted statements on the server', async () => {
    const gateway = await startGateway('server', { DATABASE_PREPARE: prepare, DATABASE_POOL: '1' });
    try {
      const { key } = await gateway.createKey();
      const headers = { Authorization: `Bearer ${key}`, 'Content-Type': 'application/json' };
      for (let round = 0; round < 3; round++) {
        const body = '{"name":"Rex","categoryId":9007199254740993}';
        const added = await gateway.fetch('/v1/pets', { method: 'POST', headers, body });
        expect(added.status).toBe(201);
        const found = await gateway.fetch(added.headers.get('location') ?? '', { headers });
        expect(await found.text()).toContain('"categoryId":9007199254740993');
        const listed = await gateway.fetch('/v1/pets', { headers });
        expect(await listed.json()).toHaveLength(round + 1);
      }
      const kept = await gateway.sql<{ name: string }>('SELECT name FROM pg_prepared_statements');
      const names = kept.map(({ name }) => name);
      expect(expected.filter((name) => !names.includes(name))).toEqual([]);
      if (expected.length === 0) expect(names).toEqual([]);
    } finally {
      await gateway.close();
    }
  });
});

type Ask = (text: string) => Promise<Record<string, unknown>[]>;

const COUNT = { name: '', text: 'SELECT count(*)::int AS count FROM pets' };
const SEARCH_PATH = { name: '', text: 'SHOW search_path' };

async function tablesOf(ask: Ask, schema = 'public'): Promise<unknown[]> {
  const rows = await ask(`SELECT tablename FROM pg_tables WHERE schemaname = '${schema}' ORDER BY tablename`);
  return rows.map(({ tablename }) => tablename);
}

/** Everything that a second run could change. */
async function describeDatabase(ask: Ask): Promise<unknown[]> {
  return [
    await ask(`SELECT table_name, column_name, data_type, column_default, is_nullable FROM information_schema.columns
      WHERE table_schema = 'public' ORDER BY table_name, ordinal_position`),
    await ask(`SELECT indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY indexdef`),
    await ask('SELECT * FROM schema_version ORDER BY version'),
    await ask('SELECT * FROM pets ORDER BY id'),
  ];
}
