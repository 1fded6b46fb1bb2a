import { ADDRESS_CAPACITY } from '../access/session.js';
import { createMemoryLedger } from '../access/memory-ledger.js';
import { createPostgresKeyStore } from './postgres-key-store.js';
import { createStoreAccess } from './store-access.js';
import { ConfigError, type Config, type StoreConfig } from '../config.js';
import { guardWrites, observeDatabase, type Database } from './database.js';
import { inspectStore, listPendingMigrations, migrate } from './migrate.js';
import { createPgDatabase } from './pg-database.js';
import { createPostgresUsage } from './postgres-usage.js';
import { createUsageCounter } from './usage-counter.js';
import { openEmbeddedDatabase } from './embedded-store.js';
import { fillEmptyStore, findDevelopmentKeys } from './first-start.js';
import { nameKey } from './key-admin.js';
import { StoreError } from '../errors.js';
import { repeat } from '../repeat.js';
import { nameAddress, type Backend, type Sharing, type WaitUntilAvailable } from '../backend.js';
import type { Log } from '../observability/log.js';
import type { Metrics } from '../observability/metrics.js';
import { createPostgresPetSource, pruneIdempotentAdds } from '../pets/postgres-pet-source.js';
import { createBatchingPetSource } from '../pets/batching-pet-source.js';

export interface StoreBackendOptions extends Pick<Config, 'bans' | 'startTimeoutMs'> {
  readonly store: StoreConfig;
  readonly waitUntilAvailable: WaitUntilAvailable;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly sharing?: Sharing | undefined;
  /** Wraps the database, for tests. */
  readonly decorateDatabase?: ((database: Database) => Database) | undefined;
}

const HOUR_MS = 3_600_000;

/**
 * Opens a store and migrates its database.
 * @throws ConfigError if the database cannot be opened, or another process has the embedded store
 */
export async function openStoreBackend(options: StoreBackendOptions): Promise<Backend> {
  const { store, waitUntilAvailable, bans, log, metrics, sharing, decorateDatabase } = options;
  const closers: (() => Promise<unknown> | undefined)[] = [];
  const close = async (): Promise<void> => {
    for (const closer of closers.splice(0).reverse()) await closer();
  };
  try {
    const opened = await openDatabase(store, log);
    closers.push(() => opened.close());
    if (opened.connections) metrics.watchPool(opened.connections);
    const database = observeDatabase(decorateDatabase?.(opened) ?? opened, metrics);
    const guarded = store.kind === 'server' ? guardWrites(database, store.pool, log) : database;
    const pending = await waitUntilAvailable(`${nameSetting(store)} names a database`, () =>
      migrateAtStart(database, options),
    );

    const { isStandby, problem } = await inspectStore(database);
    if (problem !== undefined) log.error({ problem }, 'not ready: the store cannot serve requests');
    const usage = isStandby ? undefined : countUsage(database);
    if (isStandby) log.warn('the database is a hot standby: usage of keys is not counted here, and additions get 503');

    const keys = createPostgresKeyStore(database);
    const source = createBatchingPetSource(createPostgresPetSource(guarded, store.kind === 'embedded'));
    const ledger = createMemoryLedger(bans);
    const addressLedger = createMemoryLedger({ capacity: ADDRESS_CAPACITY });
    const access = createStoreAccess(
      keys,
      sharing?.ledger(ledger, nameKey, bans) ?? ledger,
      sharing?.ledger(addressLedger, (address) => nameAddress('animals:store:address:', address)) ?? addressLedger,
      metrics.admissions,
    );
    const check = async () => {
      database.requireSpace();
      const state = await inspectStore(database);
      // All instances share the database, so this is an outage, as for a database that does not answer.
      if (!isStandby && state.problem === undefined && state.isReadOnly)
        throw new StoreError('unavailable', 'The database is read-only.', { retryAfter: 5 });
      return state.problem;
    };
    const hasKeys = async () => problem !== undefined || (await keys.list({ limit: 1 })).length > 0;
    const backend = { source, access, ...(usage && { usage }), isStore: true, hasKeys, check, close };
    if (store.kind === 'server' || !store.developmentKeys) return backend;
    const { directory, sampleAnimals } = store;
    return {
      ...backend,
      fill: pending.length > 0 ? undefined : () => fillEmptyStore(directory, keys, source, sampleAnimals),
      findDevelopmentKeys: () => findDevelopmentKeys(directory),
    };
  } catch (error) {
    await close();
    throw error;
  }

  /** Counts the usage of keys, and deletes expired rows from time to time. */
  function countUsage(database: Database) {
    const reports = createPostgresUsage(database);
    const usage = createUsageCounter({ write: (counts) => reports.add(counts), log });
    let prunedAt = performance.now();
    const sincePruned = (): number => (performance.now() - prunedAt) / 1_000;
    metrics.gauge('store_pruning_age_seconds', 'Time since all expired rows were last deleted', sincePruned);
    const stopPruning = repeat({
      run: async () => {
        await Promise.all([pruneIdempotentAdds(database), reports.prune()]);
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
    // The StoreError of a database that may be available later.
    const { cause } = error as Error;
    if (error instanceof StoreError && cause instanceof Error && !HOPELESS.test(codeOf(cause))) throw error;
    throw toConfigError(error, nameSetting(store));
  }
}

/** PgBouncer refuses with this code, for example the settings of a session. PostgreSQL does not use it for that. */
const POOLER_REFUSES = '08P01';
/** Waiting does not help a wrong password or database name, a missing permission or a pooler that refuses. */
const HOPELESS = /^(?:28|3D|42501$|08P01$)/;

function codeOf(error: Error): string {
  return (error as NodeJS.ErrnoException).code ?? '';
}

/** Converts the error of a database that cannot be opened to one with a message for the operator. */
export function toConfigError(error: unknown, setting = 'DATABASE_URL'): unknown {
  // The server refuses a connection with an error of this severity.
  const isFatal = error instanceof Error && 'severity' in error && error.severity === 'FATAL';
  const cause = isFatal ? error : error instanceof StoreError && error.cause;
  if (!(cause instanceof Error)) return error;
  const { message } = cause;
  const code = codeOf(cause);
  return new ConfigError(
    code === POOLER_REFUSES
      ? `${setting} names a pooler that refuses: ${message}. It may need DATABASE_PREPARE=false`
      : `${setting} names a database that cannot be reached: ${message || code}`,
  );
}

function nameSetting(store: StoreConfig): string {
  return store.kind === 'server' ? store.setting : 'DATA_DIR';
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
    throw new ConfigError(`${nameSetting(store)} cannot be used: ${(error as Error).message}`);
  }
}
