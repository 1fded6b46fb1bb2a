import { basename } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import Postgrator from 'postgrator';
import { ConfigError } from '../config.js';
import { StoreError } from '../errors.js';
import type { Database } from './database.js';

const MIGRATIONS = fileURLToPath(new URL('../../migrations/*.sql', import.meta.url));

/** The number is arbitrary, but every instance must use the same one. */
const MIGRATION_LOCK = 7_236_012_030;

/**
 * Lets one instance at a time migrate. A migration that waits for a lock blocks all later requests for the table, so it
 * gives up soon and tries again. If this process dies, the server notices within a second and rolls back. (Not every
 * server supports that setting.)
 */
const PREPARE = `SET LOCAL lock_timeout = '2s';
  DO $$ BEGIN PERFORM set_config('client_connection_check_interval', '1s', true); EXCEPTION WHEN OTHERS THEN END $$;
  SELECT pg_advisory_xact_lock(${MIGRATION_LOCK})`;

const RETRY_MS = 500;

const LOCK_NOT_AVAILABLE = '55P03';
const PERMISSION_DENIED = '42501';
const GRANT =
  'Run npm run migrate as the owner of the tables or, for a new database, GRANT CREATE ON SCHEMA public to the role';

interface MigrateOptions {
  /** How long to wait for locks, and for another instance that migrates, in milliseconds. */
  readonly waitMs?: number;
  readonly onWait?: (reason: string) => void;
  readonly files?: string;
}

/**
 * Runs the migrations that the database lacks, each file in one transaction. If several instances start at once, one at
 * a time migrates.
 * @returns the names of the files that it ran
 * @throws ConfigError if a migration failed; StoreError `unavailable` if the database cannot be reached
 */
export async function migrate(
  database: Database,
  { waitMs = 60_000, onWait, files = MIGRATIONS }: MigrateOptions = {},
): Promise<readonly string[]> {
  const deadline = performance.now() + waitMs;
  const applied: string[] = [];
  for (let hasWaited = false; ;) {
    let file = 'of the database';
    try {
      const [done] = await withPending(database, files, PREPARE, async ([next], postgrator) => {
        if (!next) return [];
        file = basename(next.filename);
        return postgrator.migrate(String(next.version));
      });
      if (!done) return applied;
      applied.push(file);
    } catch (error) {
      const isLocked = codeOf(error) === LOCK_NOT_AVAILABLE;
      if (!isLocked || performance.now() >= deadline) throw toFailure(error, file);
      if (!hasWaited) onWait?.(`migration ${file} waits: another transaction has a lock`);
      hasWaited = true;
      await sleep(RETRY_MS);
    }
  }
}

/** Returns the names of the files that the database lacks. Changes nothing. */
export function listPendingMigrations(database: Database, files = MIGRATIONS): Promise<readonly string[]> {
  return withPending(database, files, '', (pending) => pending.map(({ filename }) => basename(filename)));
}

type Migration = Awaited<ReturnType<Postgrator['getMigrations']>>[number];

/**
 * Calls `work` with the migrations that the database lacks, in one transaction.
 * @param prepare - SQL that runs before
 * @throws ConfigError if a file has changed since it ran
 */
async function withPending<T>(
  database: Database,
  files: string,
  prepare: string,
  work: (pending: readonly Migration[], postgrator: Postgrator) => T | Promise<T>,
): Promise<T> {
  return database.transaction(async (connection) => {
    await connection.execute(prepare);
    const { rows } = await connection.execute(
      `SELECT current_database() AS name, current_schema() AS schema, current_setting('server_encoding') AS encoding`,
    );
    const [{ name, schema, encoding } = {}] = rows;
    if (encoding !== 'UTF8')
      throw new ConfigError(`the database has the encoding ${String(encoding)}: create one with UTF8`);
    const postgrator = new Postgrator({
      migrationPattern: files,
      driver: 'pg',
      database: String(name),
      schemaTable: 'schema_version',
      currentSchema: String(schema),
      newline: 'LF',
      execQuery: (text) => connection.execute(text),
      execSqlScript: async (text) => {
        await connection.execute(text);
      },
    });
    const version = await postgrator.getDatabaseVersion();
    await postgrator.validateMigrations(version).catch((error: unknown) => {
      const { code, message } = error as NodeJS.ErrnoException;
      throw code ? error : new ConfigError(`a migration was changed after it had run: ${message}`);
    });
    const result = await work(postgrator.getRunnableMigrations(version, Infinity), postgrator);
    // Postgrator has set it for the connection, which the pool uses again.
    await connection.execute('RESET search_path');
    return result;
  });
}

function codeOf(error: unknown): unknown {
  const { cause = error } = error as Error;
  return (cause as NodeJS.ErrnoException).code;
}

function toFailure(error: unknown, file: string): unknown {
  if (error instanceof ConfigError) return error;
  if (error instanceof StoreError && codeOf(error) !== LOCK_NOT_AVAILABLE) return error;
  const { message } = (error instanceof StoreError ? error.cause : error) as Error;
  const remedy = codeOf(error) === PERMISSION_DENIED ? `. ${GRANT}` : '';
  return new ConfigError(`migration ${file} failed: ${message}${remedy}`);
}

/**
 * What a server does with each table. A role that only serves needs no other permissions: docs/operating.md lists them.
 * The CASE keeps PostgreSQL from asking for the permissions of a table that does not exist.
 */
const FIND_PROBLEMS = {
  name: 'check-store',
  text: `SELECT name, permission, to_regclass(name) IS NOT NULL AS exists
         FROM (VALUES
           ('pets', 'SELECT, INSERT'),
           ('pets_id_seq', 'USAGE'),
           ('api_keys', 'SELECT'),
           ('idempotent_adds', 'SELECT, INSERT, UPDATE, DELETE'),
           ('usage', 'SELECT, INSERT, UPDATE, DELETE')
         ) AS tables (name, permissions), string_to_table(permissions, ', ') AS permission
         WHERE CASE
           WHEN to_regclass(name) IS NULL THEN true
           WHEN permission = 'USAGE' THEN NOT has_sequence_privilege(to_regclass(name)::oid, permission)
           ELSE NOT has_table_privilege(to_regclass(name)::oid, permission)
         END`,
};

/**
 * Checks that the database answers, and that it has what requests need.
 * @returns what is missing; undefined if nothing is
 * @throws StoreError `unavailable` if the database does not answer
 */
export async function checkStore(database: Database): Promise<string | undefined> {
  const problems = await database.query<{ name: string; permission: string; exists: boolean }>(FIND_PROBLEMS, []);
  const [missing] = problems.filter(({ exists }) => !exists);
  if (missing) return `The database has no ${missing.name}: its migrations are pending.`;
  if (problems.length === 0) return undefined;
  return `The database role lacks ${problems.map(({ name, permission }) => `${permission} on ${name}`).join(', ')}.`;
}

/** Whether the database only follows another one. */
export function isHotStandby(database: Database): Promise<boolean> {
  return ask(database, 'find-standby', 'SELECT pg_is_in_recovery() AS answer');
}

/** Whether the database refuses writes. */
export function isReadOnly(database: Database): Promise<boolean> {
  return ask(database, 'find-read-only', `SELECT current_setting('transaction_read_only')::boolean AS answer`);
}

async function ask(database: Database, name: string, text: string): Promise<boolean> {
  const [row] = await database.query<{ answer: boolean }>({ name, text }, []);
  return row?.answer === true;
}

/**
 * @param store - what the store is for the operator
 * @throws Error if the program has never migrated the database
 */
export async function requireTables(database: Database, store: string): Promise<void> {
  const text = "SELECT to_regclass('api_keys') IS NOT NULL AS exists";
  const [row] = await database.query<{ exists: boolean }>({ name: 'find-tables', text }, []);
  if (!row?.exists) throw new Error(`${store} has no tables: start the program or run npm run migrate`);
}
