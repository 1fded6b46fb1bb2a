import { basename } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import Postgrator from 'postgrator';
import { ConfigError } from '../config.js';
import { StoreError } from '../errors.js';
import type { Database, Session } from './database.js';

const MIGRATIONS = fileURLToPath(new URL('../../migrations/*.sql', import.meta.url));

/** The number is arbitrary, but every instance must use the same one. */
const MIGRATION_LOCK = 7_236_012_030;

/** A file that begins with this line runs statement by statement outside a transaction, for CREATE INDEX CONCURRENTLY. */
const NO_TRANSACTION = '-- no transaction\n';

/**
 * A migration that waits for a lock blocks all later requests for the table, so it gives up soon and tries again. If
 * this process dies, the server notices within a second and rolls back. (Not every server supports that setting.)
 */
const CAUTION = `SET LOCAL lock_timeout = '2s';
  DO $$ BEGIN PERFORM set_config('client_connection_check_interval', '1s', true); EXCEPTION WHEN OTHERS THEN END $$`;

const RETRY_MS = 500;

export interface MigrateOptions {
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
    const [next] = await findPending(database, files);
    if (!next) return applied;
    try {
      if (await runNext(database, next, files)) applied.push(basename(next.filename));
    } catch (error) {
      const reason = toWaitReason(error);
      if (reason === undefined || performance.now() >= deadline) throw toFailure(error, next.filename);
      if (!hasWaited) onWait?.(`migration ${basename(next.filename)} waits: ${reason}`);
      hasWaited = true;
      await sleep(RETRY_MS);
    }
  }
}

/** Returns the names of the files that the database lacks. Changes nothing. */
export async function listPendingMigrations(database: Database, files = MIGRATIONS): Promise<readonly string[]> {
  return (await findPending(database, files)).map(({ filename }) => basename(filename));
}

type Migration = Awaited<ReturnType<Postgrator['getMigrations']>>[number];

/** @throws ConfigError if a file has changed since it ran */
async function findPending(database: Database, files: string): Promise<readonly Migration[]> {
  return database.transaction((session) =>
    withPostgrator(session, files, async (postgrator) => {
      const version = await postgrator.getDatabaseVersion();
      let file = '';
      postgrator.on('validation-started', ({ filename }) => (file = basename(filename)));
      await postgrator.validateMigrations(version).catch((error: unknown) => {
        if (!(error as Error).message.startsWith('MD5')) throw error;
        throw new ConfigError(`${file} was changed after it had run: restore it, and make a new file for the change`);
      });
      return postgrator.getRunnableMigrations(version, Infinity);
    }),
  );
}

/** @returns false if another instance has run it in the meantime */
async function runNext(database: Database, migration: Migration, files: string): Promise<boolean> {
  const run = async (postgrator: Postgrator): Promise<boolean> =>
    (await postgrator.migrate(String(migration.version))).length > 0;
  if (!migration.getSql().startsWith(NO_TRANSACTION)) {
    return database.transaction(async (session) => {
      await session.execute(CAUTION);
      await lock(session, 'pg_try_advisory_xact_lock');
      return withPostgrator(session, files, run);
    });
  }
  return database.session(async (session) => {
    await lock(session, 'pg_try_advisory_lock');
    try {
      return await withPostgrator(session, files, run);
    } finally {
      await session.execute(`SELECT pg_advisory_unlock(${MIGRATION_LOCK})`);
    }
  });
}

async function lock(session: Session, take: string): Promise<void> {
  const { rows } = await session.execute(`SELECT ${take}(${MIGRATION_LOCK}) AS taken`);
  if (!rows[0]?.taken) throw new LockedError();
}

class LockedError extends Error {
  override readonly message = 'another instance migrates';
}

async function withPostgrator<T>(
  session: Session,
  files: string,
  work: (postgrator: Postgrator) => Promise<T>,
): Promise<T> {
  const { rows } = await session.execute('SELECT current_database() AS name, current_schema() AS schema');
  const [{ name, schema } = {}] = rows;
  const postgrator = new Postgrator({
    migrationPattern: files,
    driver: 'pg',
    database: String(name),
    schemaTable: 'schema_version',
    currentSchema: String(schema),
    newline: 'LF',
    execQuery: (text) => session.execute(text),
    execSqlScript: async (text) => {
      // PostgreSQL would run several statements in one message as a transaction.
      const statements = text.startsWith(NO_TRANSACTION) ? text.split(/;\s*$/m).filter((part) => part.trim()) : [text];
      for (const statement of statements) await session.execute(statement);
    },
  });
  try {
    return await work(postgrator);
  } finally {
    // Postgrator sets the session's search path, and the pool reuses the session. A failed transaction restores it.
    await session.execute('RESET search_path').catch(() => undefined);
  }
}

/** Why a migration has to wait; undefined if waiting would not help. */
function toWaitReason(error: unknown): string | undefined {
  if (error instanceof LockedError) return error.message;
  const { cause = error } = error as Error;
  const { code } = cause as { readonly code?: unknown };
  return code === '55P03' ? 'another transaction has a lock on a table' : undefined;
}

function toFailure(error: unknown, filename: string): unknown {
  if (error instanceof StoreError && toWaitReason(error) === undefined) return error;
  const { message } = (error instanceof StoreError ? error.cause : error) as Error;
  return new ConfigError(`migration ${basename(filename)} failed: ${message}`, { cause: error });
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

/**
 * @param store - what the store is for the operator
 * @throws Error if the program has never migrated the database
 */
export async function requireTables(database: Database, store: string): Promise<void> {
  const text = "SELECT to_regclass('api_keys') IS NOT NULL AS exists";
  const [row] = await database.query<{ exists: boolean }>({ name: 'find-tables', text }, []);
  if (!row?.exists) throw new Error(`${store} has no tables: start the program or run npm run migrate`);
}
