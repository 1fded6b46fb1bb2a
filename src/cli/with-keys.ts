import { userInfo } from 'node:os';
import { loadEnvironment } from '../environment.js';
import { createKeyAdmin, createPeek, type KeyAdmin } from '../store/key-admin.js';
import { listPendingMigrations } from '../store/migrate.js';
import { createPostgresKeyStore } from '../store/postgres-key-store.js';
import { createPostgresUsage } from '../store/postgres-usage.js';
import { withStore } from './program.js';

/** Runs `work` on the keys of the configured store, and reports which store that is. */
export function withKeys<T>(work: (admin: KeyAdmin, actor: string, store: string) => Promise<T>): Promise<T> {
  const config = loadEnvironment();
  return withStore(config, async (database, name) => {
    const pending = await listPendingMigrations(database);
    if (pending.length > 0) throw new Error('migrations are pending: run npm run migrate');
    // The whole program takes longer to load than most commands to run.
    const app = config.redisUrl === undefined ? undefined : await import('../app.js');
    const sharing = await app?.openSharing({ ...config, redisTimeoutMs: 5_000 });
    const peek = createPeek(sharing, config.bans);
    const admin = createKeyAdmin(createPostgresKeyStore(database), createPostgresUsage(database), peek);
    if (sharing?.isUp() === false)
      console.error('keys: Redis does not answer: what keys have left and their bans are not shown');
    const result = await work(admin, config.keysActor ?? findUser(), name).finally(() => sharing?.close());
    console.error(`keys: ${name}`);
    return result;
  });
}

/** The user of the operating system. In a container, it may have no name. */
function findUser(): string {
  try {
    return userInfo().username;
  } catch {
    return `uid ${process.getuid?.() ?? 'unknown'}`;
  }
}
