import pg from 'pg';
import { overloaded, StoreError } from '../errors.js';
import type { Database, Session } from './database.js';

export interface PgDatabaseOptions {
  readonly url: string;
  /** The most connections. */
  readonly pool: number;
  /** Whether to use named prepared statements; poolers in transaction mode may not support them. */
  readonly prepare: boolean;
  /** Called when an idle connection breaks; the pool replaces it. */
  readonly onConnectionError?: (error: Error) => void;
}

/** Connecting and one statement together take less than three seconds, the longest that a client waits. */
const CONNECT_TIMEOUT_MS = 1_250;
const STATEMENT_TIMEOUT_MS = 1_250;
const QUERY_TIMEOUT_MS = 1_400;

/**
 * Every statement of a request can read an index in the order it needs, at any table size. These settings make PostgreSQL
 * plan that way, and only once per statement. By default it plans a list anew each time, and a plan for a few rows reads
 * the whole table and stays until the table is analysed again. `options` in the URL replace these settings.
 */
const LASTING_PLANS = '-c plan_cache_mode=force_generic_plan -c enable_seqscan=off';

/** Only commands and migrations use sessions. A migration may take long. */
const SESSION_TIMEOUT_MS = 3_600_000;

/** Creates a pool of connections to a PostgreSQL server. It connects with the first statement. */
export function createPgDatabase({ url, pool: max, prepare, onConnectionError }: PgDatabaseOptions): Database {
  const pool = new pg.Pool({
    connectionString: url,
    max,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    // Poolers refuse session settings, so the server's own settings apply there.
    ...(prepare && {
      statement_timeout: STATEMENT_TIMEOUT_MS,
      idle_in_transaction_session_timeout: 30_000,
      options: LASTING_PLANS,
    }),
    query_timeout: QUERY_TIMEOUT_MS,
    keepAlive: true,
    types,
    application_name: 'animal-store-gateway',
  });
  pool.on('error', (error) => onConnectionError?.(error));

  return {
    async query<Row>({ name, text }: { name: string; text: string }, values: readonly unknown[]): Promise<Row[]> {
      try {
        const config = { text, values: values as unknown[] };
        const result = await pool.query(prepare ? { name, ...config } : config);
        return result.rows as Row[];
      } catch (error) {
        if (isBroken(error)) retireIdle();
        throw isPoolTimeout(error) && pool.totalCount >= max && pool.idleCount === 0
          ? overloaded(error)
          : toUnavailable(error);
      }
    },
    session: (work) =>
      withClient(async (execute) => {
        // Behind a pooler, other programs would inherit a setting of the session.
        if (!prepare) return work({ execute });
        await execute(`SET statement_timeout = ${SESSION_TIMEOUT_MS}`);
        const result = await work({ execute });
        await execute('RESET statement_timeout');
        return result;
      }),
    transaction: (work) =>
      withClient(async (execute) => {
        await execute(`BEGIN; SET LOCAL statement_timeout = ${SESSION_TIMEOUT_MS}`);
        const result = await work({ execute });
        await execute('COMMIT');
        return result;
      }),
    connections: () => ({
      used: pool.totalCount - pool.idleCount,
      idle: pool.idleCount,
      waiting: pool.waitingCount,
      max,
    }),
    close: () => pool.end(),
  };

  /** Runs `work` on one connection, and closes the connection if it fails: that also ends a transaction. */
  async function withClient<T>(work: (execute: Session['execute']) => Promise<T>): Promise<T> {
    const client = await pool.connect().catch(throwUnavailable);
    try {
      const result = await work((text) =>
        // `query_timeout` is not in the type of a query, but pg takes it there.
        client.query({ text, query_timeout: SESSION_TIMEOUT_MS } as pg.QueryConfig).catch(throwUnavailable),
      );
      client.release();
      return result;
    } catch (error) {
      client.release(true);
      throw error;
    }
  }

  /**
   * Replaces idle connections. If one connection is dead, the others may be too (for example because a firewall dropped
   * them all), and each dead one would cost a request its whole time limit.
   */
  function retireIdle(): void {
    for (let count = pool.idleCount; count > 0; count--) {
      pool.connect().then(
        (client) => client.release(true),
        () => undefined,
      );
    }
  }
}

const asWritten = (text: string): string => text;

/** Returns an int8 as the text that the server sent, without pg's parser. */
const types: pg.CustomTypesConfig = {
  getTypeParser: (oid, format) =>
    oid === pg.types.builtins.INT8 ? asWritten : (pg.types.getTypeParser(oid, format) as typeof asWritten),
};

/**
 * SQLSTATE classes of an unavailable database. A server refuses connections with 28, 3D and 55.
 * https://www.postgresql.org/docs/current/errcodes-appendix.html
 */
const UNAVAILABLE_CLASSES = new Set(['08', '25', '28', '3D', '53', '55', '57', '58']);

/** Whether the connection failed or timed out, as opposed to an error that the server reported. */
function isBroken(error: unknown): boolean {
  return !(error instanceof pg.DatabaseError) && !isPoolTimeout(error);
}

/** Whether all connections were busy for too long. The database itself may be fine. */
function isPoolTimeout(error: unknown): boolean {
  return error instanceof Error && error.message === 'timeout exceeded when trying to connect';
}

function throwUnavailable(error: unknown): never {
  throw toUnavailable(error);
}

function toUnavailable(error: unknown): unknown {
  if (error instanceof pg.DatabaseError && !UNAVAILABLE_CLASSES.has(error.code?.slice(0, 2) ?? '')) return error;
  return new StoreError('unavailable', 'The store cannot reach its database. Try again shortly.', { cause: error });
}
