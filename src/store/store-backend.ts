import { ADDRESS_CAPACITY } from '../access/session.js';
import { createMemoryLedger } from '../access/memory-ledger.js';
import type { OwnKeys } from '../access/own-keys.js';
import { unreachable, type Backend, type Sharing, type WaitUntilAvailable } from '../backend.js';
import { ConfigError, type Config, type StoreConfig } from '../config.js';
import { StoreError } from '../errors.js';
import type { Log } from '../observability/log.js';
import type { Metrics } from '../observability/metrics.js';
import { createBatchingPetSource } from '../pets/batching-pet-source.js';
import { createPostgresPetSource, pruneIdempotentAdds } from '../pets/postgres-pet-source.js';
import { repeat } from '../repeat.js';
import { observeDatabase, type Database } from './database.js';
import { openEmbeddedDatabase } from './embedded-store.js';
import { fillEmptyStore, findDevelopmentKeys } from './first-start.js';
import { listPendingMigrations, migrate } from './migrate.js';
import { createPgDatabase } from './pg-database.js';
import { createOwnKeys } from './own-keys.js';
import { createPostgresKeyStore } from './postgres-key-store.js';
import { createPostgresUsage, deleteOldRows, type PostgresUsage } from './postgres-usage.js';
import { createStoreAccess } from './store-access.js';
import { createUsageCounter } from './usage-counter.js';

export interface StoreBackendOptions extends Pick<Config, 'bans' | 'startTimeoutMs' | 'keyLogDays'> {
  readonly store: StoreConfig;
  readonly waitUntilAvailable: WaitUntilAvailable;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly sharing?: Sharing | undefined;
  /** Wraps the database, for tests. */
  readonly decorateDatabase?: ((database: Database) => Database) | undefined;
}

const HOUR_MS = 3_600_000;
const USAGE_DAYS = 366;

const CHECK = {
  name: 'check-store',
  text: `SELECT pg_is_in_recovery() AS "isStandby", current_setting('transaction_read_only')::boolean AS "isReadOnly"`,
};

/**
 * Opens a store and migrates its database.
 * @throws ConfigError if the database cannot be opened, or another process has the embedded store
 */
export async function openStoreBackend(options: StoreBackendOptions): Promise<Backend> {
  const { store, waitUntilAvailable, bans, keyLogDays, log, metrics, sharing, decorateDatabase } = options;
  const closers: (() => Promise<unknown> | undefined)[] = [];
  const close = async (): Promise<void> => {
    for (const closer of closers.splice(0).reverse()) await closer();
  };
  try {
    const opened = await openDatabase(store, log);
    closers.push(() => opened.close());
    if (opened.connections) metrics.watchPool(opened.connections);
    const database = observeDatabase(decorateDatabase?.(opened) ?? opened, metrics);
    let pending = await waitUntilAvailable(nameDatabase(store), () => migrateAtStart(database, options));
    const wasPending = pending.length > 0;

    const readState = () => database.query<{ isStandby: boolean; isReadOnly: boolean }>(CHECK, []);
    const isStandby = (await readState())[0]?.isStandby;
    const reports = createPostgresUsage(database);
    const usage = isStandby ? undefined : countUsage(database, reports);
    if (isStandby) log.warn('the database is a hot standby: usage of keys is not counted here, and additions get 503');

    const keys = createPostgresKeyStore(database);
    const source = createBatchingPetSource(createPostgresPetSource(database, store.kind === 'embedded'));
    const ledger = createMemoryLedger(bans);
    const addressLedger = createMemoryLedger({ capacity: ADDRESS_CAPACITY });
    const access = createStoreAccess(
      keys,
      sharing?.ledger(ledger, 'store:key', bans) ?? ledger,
      sharing?.ledger(addressLedger, 'store:address') ?? addressLedger,
      metrics.admissions,
    );
    const check = async () => {
      database.requireSpace();
      if (pending.length > 0) pending = await listPendingMigrations(database);
      if (pending.length > 0) return 'Migrations of the database are pending.';
      // All instances share the database, so this is an outage, as for a database that does not answer.
      if (!isStandby && (await readState())[0]?.isReadOnly)
        throw new StoreError('unavailable', 'The database is read-only.', { retryAfter: 5 });
      return undefined;
    };
    const ownKeys: OwnKeys = {
      ...createOwnKeys(keys, metrics.countRotation),
      async listUsage(...request) {
        await usage?.flush();
        return reports.listDaily(...request);
      },
    };
    const hasKeys = async () => wasPending || (await keys.list({ limit: 1 })).length > 0;
    const backend = { source, access, ownKeys, ...(usage && { usage }), isStore: true, hasKeys, check, close };
    if (store.kind === 'server' || !store.developmentKeys) return backend;
    const { directory, sampleAnimals } = store;
    return {
      ...backend,
      fill: wasPending ? undefined : () => fillEmptyStore(directory, keys, source, sampleAnimals),
      findDevelopmentKeys: () => findDevelopmentKeys(directory),
    };
  } catch (error) {
    await close();
    throw error;
  }

  /** Counts the usage of keys, and deletes expired rows from time to time. */
  function countUsage(database: Database, reports: PostgresUsage) {
    const usage = createUsageCounter({ write: (rows) => reports.add(rows), log });
    metrics.total('usage_requests_lost_total', 'Requests that the usage of keys leaves out', usage.lost);
    let prunedAt = performance.now();
    const sincePruned = (): number => (performance.now() - prunedAt) / 1_000;
    metrics.gauge('store_pruning_age_seconds', 'Time since all expired rows were last deleted', sincePruned);
    const stopPruning = repeat({
      run: async () => {
        await Promise.all([
          pruneIdempotentAdds(database),
          deleteOldRows(database, 'usage', USAGE_DAYS),
          keyLogDays !== undefined && deleteOldRows(database, 'key_log', keyLogDays),
        ]);
        prunedAt = performance.now();
      },
      // At random, so that instances spread out.
      pauseMs: () => HOUR_MS * (0.5 + Math.random() / 2),
      onError: (err) => log.warn({ err }, 'cannot delete expired rows; the next run tries again'),
    });
    closers.push(() => usage.close(), stopPruning);
    return usage;
  }
}

/**
 * Migrates, or reports what is pending if MIGRATE is false.
 * @returns the names of the migrations that are still pending
 */
async function migrateAtStart(
  database: Database,
  { store, startTimeoutMs: waitMs, log }: StoreBackendOptions,
): Promise<readonly string[]> {
  try {
    if (store.migrate) {
      await migrate(database, { waitMs, onWait: (reason) => log.warn(reason) });
      return [];
    }
    const pending = await listPendingMigrations(database);
    if (pending.length > 0) log.warn({ pending }, 'migrations are pending: run npm run migrate');
    return pending;
  } catch (error) {
    const { code } = ((error as Error).cause ?? {}) as NodeJS.ErrnoException;
    if (error instanceof StoreError && code === POOLER_REFUSES)
      throw unreachable(nameDatabase(store), error, '. A pooler may need DATABASE_PREPARE=false');
    throw error;
  }
}

/** PgBouncer refuses with this code, for example the settings of a session. PostgreSQL does not use it for that. */
const POOLER_REFUSES = '08P01';

function nameDatabase(store: StoreConfig): string {
  return `${store.kind === 'server' ? store.setting : 'DATA_DIR'} names a database`;
}

/** Opens the database of a store. It connects to a server with the first statement. */
export async function openDatabase(store: StoreConfig, log?: Log, statementTimeoutMs?: number): Promise<Database> {
  if (store.kind === 'embedded') return openEmbeddedDatabase(store.directory, log);
  try {
    return createPgDatabase({
      ...store,
      statementTimeoutMs,
      // The error has the whole client on it.
      onConnectionError: ({ message }) => log?.warn({ reason: message }, 'an idle database connection broke'),
    });
  } catch (error) {
    throw new ConfigError(`${store.setting} cannot be used: ${(error as Error).message}`);
  }
}
