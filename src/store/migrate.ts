import { basename } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import Postgrator from 'postgrator';
import { ConfigError } from '../config.js';
import { StoreError } from '../errors.js';
import type { Database } from './database.js';
import { UNDONE } from './pg-errors.js';

const MIGRATIONS = fileURLToPath(new URL('../../migrations', import.meta.url));

/**
 * Lets one instance at a time migrate: all must use the same number. A migration that waits for a lock blocks all later
 * requests for the table, so it gives up soon and tries again. Servers that support it notice within a second when this
 * process dies.
 */
const PREPARE = `SET LOCAL lock_timeout = '2s';
  DO $$ BEGIN PERFORM set_config('client_connection_check_interval', '1s', true); EXCEPTION WHEN OTHERS THEN END $$;
  SELECT pg_advisory_xact_lock(7236012030)`;

const RETRY_MS = 500;

/** Another transaction held a lock for too long. */
const LOCKED = '55P03';
const NO_PERMISSION = '42501';
const GRANT =
  '. Run npm run migrate as the owner of the tables or, for a new database, GRANT CREATE ON SCHEMA public to the role';

interface MigrateOptions {
  /** How long to wait for locks, and for another instance that migrates, in milliseconds. */
  readonly waitMs?: number;
  readonly onWait?: (reason: string) => void;
  readonly folder?: string;
}

/**
 * Runs the migrations that the database lacks, each file in one transaction.
 * @returns the names of the files that it ran
 * @throws ConfigError if a migration failed; StoreError `unavailable` if the database cannot be reached
 */
export async function migrate(
  database: Database,
  { waitMs = 60_000, onWait, folder = MIGRATIONS }: MigrateOptions = {},
): Promise<readonly string[]> {
  const deadline = performance.now() + waitMs;
  const applied: string[] = [];
  let file = 'of the database';
  for (let hasWaited = false; ;) {
    try {
      const isDone = await withPending(database, folder, PREPARE, async ([next], postgrator) => {
        if (!next) return true;
        file = basename(next.filename);
        await postgrator.migrate(String(next.version));
        return false;
      });
      if (isDone) return applied;
      applied.push(file);
    } catch (error) {
      const { code, message } = ((error as Error).cause ?? error) as NodeJS.ErrnoException;
      const isInTheWay = code === LOCKED || UNDONE.has(code);
      if (error instanceof ConfigError || (error instanceof StoreError && !isInTheWay)) throw error;
      if (!isInTheWay || performance.now() >= deadline)
        throw new ConfigError(`migration ${file} failed: ${message}${code === NO_PERMISSION ? GRANT : ''}`);
      if (!hasWaited) onWait?.(`migration ${file} waits: another transaction has a lock`);
      hasWaited = true;
      await sleep(RETRY_MS);
    }
  }
}

/** Returns the names of the files that the database lacks. Changes nothing. */
export function listPendingMigrations(database: Database, folder = MIGRATIONS): Promise<readonly string[]> {
  return withPending(database, folder, '', (pending) => pending.map(({ filename }) => basename(filename)));
}

type Migration = Awaited<ReturnType<Postgrator['getMigrations']>>[number];

/**
 * Calls `work` with the migrations that the database lacks, in one transaction.
 * @param prepare - SQL that runs before
 * @throws ConfigError if a file has changed since it ran
 */
async function withPending<T>(
  database: Database,
  folder: string,
  prepare: string,
  work: (pending: readonly Migration[], postgrator: Postgrator) => T | Promise<T>,
): Promise<T> {
  return database.transaction(async (execute) => {
    await execute(prepare);
    const { rows } = await execute(
      `SELECT current_schema() AS schema, current_setting('server_encoding') AS encoding,
         has_table_privilege(to_regclass(quote_ident(current_schema()) || '.schema_version'), 'SELECT') AS may,
         set_config('search_path', quote_ident(current_schema()), true)`,
    );
    const [{ schema, encoding, may } = {}] = rows;
    if (typeof schema !== 'string') throw new ConfigError('the database has no schema that its search_path names');
    if (encoding !== 'UTF8')
      throw new ConfigError(`the database has the encoding ${String(encoding)}: create one with UTF8`);
    // Postgrator would not see the table, and try to create it.
    if (may === false)
      throw new ConfigError(
        'the role lacks SELECT on schema_version: GRANT it. Run npm run migrate as the owner of the tables',
      );
    const postgrator = new Postgrator({
      migrationPattern: `${folder.replace(/[\\?*()[\]{}]/g, '\\$&')}/*.sql`,
      driver: 'pg',
      schemaTable: 'schema_version',
      // It is written between quotes.
      currentSchema: schema.replaceAll("'", "''"),
      newline: 'LF',
      // Postgrator sets the search_path as well, but does not quote the name.
      execQuery: (text) => execute(text.replace(/^SET .*/, '')),
      execSqlScript: async (text) => {
        await execute(text);
      },
    });
    const version = await postgrator.getDatabaseVersion();
    await postgrator.validateMigrations(version).catch((error: unknown) => {
      const { code, message } = error as NodeJS.ErrnoException;
      throw code ? error : new ConfigError(`a migration was changed after it had run: ${message}`);
    });
    return work(postgrator.getRunnableMigrations(version, Infinity), postgrator);
  });
}
