import { readLimits } from '../access/limits-file.js';
import { createMemoryLedger } from '../access/memory-ledger.js';
import type { Config, StoreConfig } from '../config.js';
import { openRedisLink } from '../redis/redis-link.js';
import { splitHosts } from '../setting-types.js';
import type { Database } from './database.js';
import { requireEmbeddedStore } from './embedded-store.js';
import { createKeyAdmin, createRedisPeek, type KeyAdmin, type Peek } from './key-admin.js';
import { connectKeys } from './key-socket.js';
import { createPostgresKeyStore } from './postgres-key-store.js';
import { listPendingMigrations } from './migrate.js';
import { createPostgresUsage } from './postgres-usage.js';
import { openDatabase } from './store-backend.js';

/** A report on all keys may take longer than a request may. */
const REPORT_TIMEOUT_MS = 60_000;

/**
 * Runs `work` on the keys of an existing store, for the `keys` command: through the server that has the store open,
 * otherwise directly.
 * @param work - takes the keys, and a description of the store for the operator
 */
export async function withKeyAdmin<T>(
  { backend, bans, redisUrl }: Config,
  work: (admin: KeyAdmin, store: string) => Promise<T>,
): Promise<T> {
  if (backend.kind === 'proxy')
    throw new Error('UPSTREAM_URL is set: keys belong to the animal store behind the gateway');
  const store = describeStore(backend);
  if (backend.kind === 'embedded') {
    const served = await connectKeys(backend.directory);
    if (served) return work(served.admin, `${store}, through the server that has it open`).finally(served.close);
    requireEmbeddedStore(backend.directory, ': start the program to create one');
  }
  return withDatabase(backend, async (database) => {
    await requireTables(database, store);
    const { length } = await listPendingMigrations(database);
    if (length > 0) throw new Error(`${store} has pending migrations (${length}): run npm run migrate`);
    const redis = redisUrl === undefined ? undefined : await openRedisLink({ url: redisUrl, deadlineMs: 5_000 });
    const peek = redis ? createRedisPeek(redis, bans) : await createPeek(backend, bans);
    const admin = createKeyAdmin(createPostgresKeyStore(database), createPostgresUsage(database), peek);
    return work(admin, store).finally(() => redis?.close());
  });
}

/** Opens the database for a command, and closes it however the command ends. */
export async function withDatabase<T>(store: StoreConfig, work: (database: Database) => Promise<T>): Promise<T> {
  const database = await openDatabase(store, undefined, REPORT_TIMEOUT_MS);
  return work(database).finally(() => database.close());
}

/** Describes a store, without the password in its URL. */
export function describeStore(store: StoreConfig): string {
  if (store.kind === 'embedded') return `the embedded store in ${store.directory}`;
  const urls = splitHosts(store.url).map((url) => new URL(url));
  return `the store on ${urls.map(({ host }) => host).join(',')}${urls[0]?.pathname ?? ''}`;
}

/** @throws Error if the program has never migrated the database */
export async function requireTables(database: Database, store: string): Promise<void> {
  const text = "SELECT to_regclass('api_keys') IS NOT NULL AS exists";
  const [row] = await database.query<{ exists: boolean }>({ name: 'find-tables', text }, []);
  if (!row?.exists) throw new Error(`${store} has no tables: start the program or run npm run migrate`);
}

/** Without Redis, each server counts for itself. The counters of a stopped embedded store are in a file. */
async function createPeek(store: StoreConfig, bans: Config['bans']): Promise<Peek> {
  if (store.kind === 'server') return () => undefined;
  const ledger = createMemoryLedger(bans);
  ledger.restore(await readLimits(store.limitsFile));
  return (account) => ledger.admit(account, 0);
}
