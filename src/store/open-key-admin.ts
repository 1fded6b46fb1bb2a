import { pino } from 'pino';
import { createMemoryLedger } from '../access/memory-ledger.js';
import type { Config, StoreConfig } from '../config.js';
import { openRedisLink, type RedisLink } from '../redis/redis-link.js';
import { splitHosts } from '../setting-types.js';
import type { Database } from './database.js';
import { requireEmbeddedStore } from './embedded-store.js';
import { createKeyAdmin, createRedisPeek, type Peek } from './key-admin.js';
import { connectKeys } from './key-socket.js';
import { readLimits } from '../access/limits-file.js';
import { createPostgresKeyStore } from './postgres-key-store.js';
import { listPendingMigrations } from './migrate.js';
import { createPostgresUsage } from './postgres-usage.js';
import { openDatabase } from './store-backend.js';

/** A report on all keys may take longer than a request may. */
const REPORT_TIMEOUT_MS = 60_000;

/**
 * Opens the keys of an existing store for the `keys` command: through the server that has the store open, otherwise
 * directly.
 * @returns the keys, and a description of the store for the operator
 */
export async function openKeyAdmin({ backend, bans, redisUrl }: Config) {
  if (backend.kind === 'proxy')
    throw new Error('UPSTREAM_URL is set: keys belong to the animal store behind the gateway');
  const store = describeStore(backend);
  if (backend.kind === 'embedded') {
    const served = await connectKeys(backend.directory);
    if (served) return { ...served, store: `${store}, through the server that has it open` };
    requireEmbeddedStore(backend.directory, ': start the program to create one');
  }
  const database = await openDatabase(backend, undefined, REPORT_TIMEOUT_MS);
  let redis: RedisLink | undefined;
  const close = async (): Promise<void> => {
    redis?.close();
    await database.close();
  };
  try {
    await requireTables(database, store);
    const { length } = await listPendingMigrations(database);
    if (length > 0) throw new Error(`${store} has pending migrations (${length}): run npm run migrate`);
    const log = pino({ level: 'silent' });
    redis = redisUrl === undefined ? undefined : await openRedisLink({ url: redisUrl, log, deadlineMs: 5_000 });
    const peek = redis ? createRedisPeek(redis, bans) : await createPeek(backend, bans);
    const admin = createKeyAdmin(createPostgresKeyStore(database), createPostgresUsage(database), peek);
    return { admin, store, close };
  } catch (error) {
    await close();
    throw error;
  }
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
