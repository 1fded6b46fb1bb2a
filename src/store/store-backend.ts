import { setTimeout as sleep } from 'node:timers/promises';
import { ADDRESS_CAPACITY } from '../access/session.js';
import { createMemoryLedger } from '../access/memory-ledger.js';
import type { Backend, Sharing, WaitUntilAvailable } from '../backend.js';
import { ConfigError, type Config, type StoreConfig } from '../config.js';
import { StoreError } from '../errors.js';
import type { Log } from '../observability/log.js';
import type { Metrics } from '../observability/metrics.js';
import { createBatchingPetSource } from '../pets/batching-pet-source.js';
import { createPostgresPetSource } from '../pets/postgres-pet-source.js';
import { splitHosts } from '../setting-types.js';
import { observeDatabase, type Database } from './database.js';
import { openEmbeddedDatabase } from './embedded-store.js';
import { fillEmptyStore, findDevelopmentKeys } from './first-start.js';
import { listPendingMigrations, migrate } from './migrate.js';
import { createPgDatabase } from './pg-database.js';
import { createOwnKeys } from './own-keys.js';
import { createPostgresKeyStore } from './postgres-key-store.js';
import { createPostgresUsage } from './postgres-usage.js';
import { startPruning } from './pruning.js';
import { createStoreAccess } from './store-access.js';
import { createUsageCounter } from './usage-counter.js';

export interface StoreBackendOptions extends Pick<Config, 'bans' | 'startTimeoutMs' | 'keyLogDays'> {
  readonly store: StoreConfig;
  readonly waitUntilAvailable: WaitUntilAvailable;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly sharing?: Sharing;
  readonly decorateDatabase?: (database: Database) => Database;
}

/** The longest wait for the latest counts. With the list itself, a database that does not answer takes three seconds. */
const FLUSH_MS = 300;

type State = 'standby' | 'read-only' | 'writable';

/** A standby can be promoted, and a primary can become one. */
const READ_STATE = {
  name: 'read-state',
  text: `SELECT CASE WHEN pg_is_in_recovery() THEN 'standby'
                     WHEN current_setting('transaction_read_only')::boolean THEN 'read-only'
                     ELSE 'writable' END AS state`,
};
/** It fails if a table or function that requests need is missing. */
const CHECK = { name: 'check-store', text: 'SELECT key_version() FROM pets, api_keys WHERE false' };

/**
 * Opens a store and migrates its database.
 * @throws ConfigError if the database cannot be opened, or another process has the embedded store
 */
export async function openStoreBackend(options: StoreBackendOptions): Promise<Backend> {
  const { store, waitUntilAvailable, bans, startTimeoutMs, keyLogDays, log, metrics, sharing } = options;
  const opened = await openDatabase(store, log);
  try {
    const { connections } = opened;
    if (connections)
      metrics.gauge(
        'db_client_pool',
        'Database connections, and statements that wait for one',
        connections,
        'db_client_pool_state',
      );
    const database = observeDatabase(options.decorateDatabase?.(opened) ?? opened, metrics);
    let pending = await waitUntilAvailable(
      `${store.kind === 'server' ? store.setting : 'DATA_DIR'} names a database`,
      migrateAtStart,
    );
    const wasPending = pending.length > 0;
    if (wasPending) log.warn({ pending }, 'migrations are pending: run npm run migrate');

    // With several hosts, the program waits for the primary. A single one may be a standby on purpose.
    const isAlone = store.kind === 'server' && splitHosts(store.url).length === 1;
    let state: State = 'writable';
    const readState = async (): Promise<State> => {
      const [row] = (await database.query(READ_STATE, [])) as [{ readonly state: State }];
      const before = state;
      state = row.state === 'standby' && !isAlone ? 'read-only' : row.state;
      if (state === 'standby' && before !== 'standby')
        log.warn('the database is a hot standby: usage of keys is not counted here, and additions get 503');
      if (state !== 'standby' && before === 'standby')
        log.info('the database is no longer a standby: usage of keys is counted');
      return state;
    };
    await readState();
    const mayWrite = async (): Promise<boolean> => (await readState()) !== 'standby';

    const keys = createPostgresKeyStore(database);
    const reports = createPostgresUsage(database);
    const usage = createUsageCounter({ write: async (counts) => (await mayWrite()) && reports.add(counts), log });
    metrics.total('usage_requests_lost_total', 'Requests that the usage of keys leaves out', usage.lost);
    const stopPruning = startPruning(database, { mayWrite, keyLogDays, log, metrics });
    const source = createBatchingPetSource(createPostgresPetSource(database, store.kind === 'embedded'));
    const ledger = createMemoryLedger(bans);
    const addressLedger = createMemoryLedger({ capacity: ADDRESS_CAPACITY });
    const backend = {
      source,
      access: createStoreAccess(
        keys,
        sharing?.ledger(ledger, 'store:key', bans) ?? ledger,
        sharing?.ledger(addressLedger, 'store:address') ?? addressLedger,
        metrics.admissions,
      ),
      ownKeys: createOwnKeys(keys, metrics.countRotation, async (...request) => {
        await Promise.race([usage.flush(), sleep(FLUSH_MS, undefined, { ref: false })]);
        return reports.listDaily(...request);
      }),
      usage,
      isStore: true,
      hasKeys: async () => wasPending || (await keys.count({})) > 0,
      async check() {
        await database.requireSpace();
        if (pending.length > 0) pending = await listPendingMigrations(database);
        if (pending.length > 0) return 'Migrations of the database are pending.';
        await database.query(CHECK, []);
        // An outage of all instances, as if the database did not answer.
        if ((await readState()) === 'read-only')
          throw new StoreError('unavailable', 'The database is read-only.', { retryAfter: 5 });
        return undefined;
      },
      async close() {
        await Promise.all([stopPruning(), usage.close()]);
        await opened.close();
      },
    };
    if (store.kind === 'server' || !store.developmentKeys) return backend;
    const { directory, sampleAnimals } = store;
    return {
      ...backend,
      fill: wasPending ? undefined : () => fillEmptyStore(directory, keys, source, sampleAnimals),
      findDevelopmentKeys: () => findDevelopmentKeys(directory),
    };

    /** Returns the migrations that are still pending. */
    async function migrateAtStart(): Promise<readonly string[]> {
      if (!store.migrate) return listPendingMigrations(database);
      await migrate(database, { waitMs: startTimeoutMs, onWait: (reason) => log.warn(reason) });
      return [];
    }
  } catch (error) {
    await opened.close();
    throw error;
  }
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
