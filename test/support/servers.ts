import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pino } from 'pino';
import type { TestProject } from 'vitest/node';
import { startApp } from '../../src/app.js';
import { loadConfig } from '../../src/config.js';
import { startPostgres } from './postgres-cluster.js';
import { findRedis } from './redis-server.js';
import { runSql } from './sql.js';

declare module 'vitest' {
  interface ProvidedContext {
    /** The PostgreSQL server that all suites share. Each suite creates its own databases there. */
    readonly postgresUrl: string;
    /** A migrated, empty database. Copying it is much cheaper than migrating another one. */
    readonly migratedDatabase: string;
    /** A directory with the files of an empty embedded store, ready to be copied. */
    readonly embeddedFiles: string;
    /** The Redis server that all suites share. Other programs may use it too, so no suite may clear it. */
    readonly redisUrl: string | undefined;
    /** Whether tests can start their own Redis servers. */
    readonly hasRedisServer: boolean;
  }
}

const MIGRATED_DATABASE = 'animal_store';

/** Starts the servers that all suites share, and prepares an empty store of each kind for them to copy. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const directory = await mkdtemp(join(tmpdir(), 'animal-store-template-'));
  const [redis, postgres] = await Promise.all([
    findRedis(),
    startPostgres(['-c', 'fsync=off']),
    prepareStore({ DATA_DIR: directory }),
  ]);
  await runSql(postgres.url, `CREATE DATABASE ${MIGRATED_DATABASE}`);
  await prepareStore({ DATABASE_URL: new URL(MIGRATED_DATABASE, postgres.url).href });

  project.provide('postgresUrl', postgres.url);
  project.provide('migratedDatabase', MIGRATED_DATABASE);
  project.provide('embeddedFiles', join(directory, 'postgres'));
  project.provide('redisUrl', redis.url);
  project.provide('hasRedisServer', redis.hasServer);
  return async () => {
    await Promise.all([postgres.close(), redis.close()]);
    await rm(directory, { recursive: true, force: true });
  };
}

/** Starts the program once so that it creates and migrates a store. In production it adds no animals or keys. */
async function prepareStore(store: Record<string, string>): Promise<void> {
  const config = loadConfig({ ...store, NODE_ENV: 'production', PORT: '0' });
  const app = await startApp(config, pino({ level: 'silent' }));
  await app.close();
}
