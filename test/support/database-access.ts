import pg from 'pg';
import { inject } from 'vitest';
import type { Gateway } from './gateway.js';

/** Makes the database of a store unavailable, and available again. */
export interface DatabaseAccess {
  readonly database: string;
  /** The address of the database, for other connections. */
  readonly url: string;
  /** With false, ends the store's connections and refuses new ones. */
  allow(allowed: boolean): Promise<void>;
  /** Runs a function while the database is unavailable. */
  whileAway<Result>(work: () => Promise<Result>): Promise<Result>;
  /** Makes the database available again. Call it before the store is closed. */
  close(): Promise<void>;
}

/** Controls access to the database of a store in mode `server`. */
export async function takeDatabaseAccess(gateway: Gateway): Promise<DatabaseAccess> {
  const [row] = await gateway.sql<{ name: string }>('SELECT current_database() AS name');
  const database = row?.name ?? '';
  const url = new URL(inject('postgresUrl'));
  url.pathname = `/${database}`;
  const server = new pg.Client({ connectionString: inject('postgresUrl') });
  await server.connect();

  async function allow(allowed: boolean): Promise<void> {
    await server.query(`ALTER DATABASE ${database} ALLOW_CONNECTIONS ${String(allowed)}`);
    if (allowed) return;
    await server.query('SELECT pg_terminate_backend(pid, 1000) FROM pg_stat_activity WHERE datname = $1', [database]);
  }

  return {
    database,
    url: url.href,
    allow,
    async whileAway(work) {
      await allow(false);
      try {
        return await work();
      } finally {
        await allow(true);
      }
    },
    async close() {
      await allow(true);
      await server.end();
    },
  };
}
