import pg from 'pg';
import { overloaded, StoreError } from '../errors.js';
import type { Database } from './database.js';

export interface PgDatabaseOptions {
  readonly url: string;
  /** Connections at the most. */
  readonly pool: number;
  /** Whether statements are prepared under a name; poolers in transaction mode may not allow it. */
  readonly prepare: boolean;
  /** Told of idle connections that broke; the pool replaces them. */
  readonly onConnectionError?: (error: Error) => void;
}

/** Time to get a connection, and for one statement, in milliseconds: together below the three seconds that a client waits at most. */
const CONNECT_TIMEOUT_MS = 1_250;
const STATEMENT_TIMEOUT_MS = 1_250;
const QUERY_TIMEOUT_MS = 1_400;

/**
 * Every statement of a request is answered from an index in the order that it asks for, however many rows there are. PostgreSQL
 * is told to plan so from the first row on, and once: it would plan a list anew each time; and a plan made for a handful of rows,
 * which reads the whole table, stays until the table is analysed again. `options` in the URL take the place of these.
 */
const LASTING_PLANS = '-c plan_cache_mode=force_generic_plan -c enable_seqscan=off';

/** Transactions are for migrations, which may wait for another instance and take longer than a request may. */
const TRANSACTION_TIMEOUT_MS = 600_000;

/** Opens a pool of connections to a PostgreSQL server. Connects with the first question. */
export function createPgDatabase({ url, pool: max, prepare, onConnectionError }: PgDatabaseOptions): Database {
  const pool = new pg.Pool({
    connectionString: url,
    max,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    // Poolers refuse settings of a session; there the server's own limits have to do.
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
    async transaction(work) {
      const client = await pool.connect().catch((error: unknown) => {
        throw toUnavailable(error);
      });
      let broken = false;
      try {
        await client.query(`BEGIN; SET LOCAL statement_timeout = ${TRANSACTION_TIMEOUT_MS}`);
        const result = await work({
          // `query_timeout` is not in the type of a query, but pg takes it there.
          execute: (text) => client.query({ text, query_timeout: TRANSACTION_TIMEOUT_MS } as pg.QueryConfig),
        });
        await client.query('COMMIT');
        return result;
      } catch (error) {
        broken = await client.query('ROLLBACK').then(
          () => false,
          (failure: unknown) => failure instanceof Error,
        );
        throw error;
      } finally {
        client.release(broken);
      }
    },
    connections: () => ({
      used: pool.totalCount - pool.idleCount,
      idle: pool.idleCount,
      waiting: pool.waitingCount,
      max,
    }),
    close: () => pool.end(),
  };

  /**
   * Replaces the connections that nobody uses. Where one has fallen silent the others may have too, as behind a firewall
   * that forgot them all, and each would cost somebody the whole time limit to find out.
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

/** An int8 is text here, exactly as it came; pg would look at each of them. */
const types: pg.CustomTypesConfig = {
  getTypeParser: (oid, format) =>
    oid === pg.types.builtins.INT8 ? asWritten : (pg.types.getTypeParser(oid, format) as typeof asWritten),
};

/**
 * SQLSTATE classes of a database that is away rather than a statement that is wrong; 28, 3D and 55 are those with which a
 * server turns a connection down. https://www.postgresql.org/docs/current/errcodes-appendix.html
 */
const UNAVAILABLE_CLASSES = new Set(['08', '25', '28', '3D', '53', '55', '57', '58']);

/** The connection failed, or nothing came over it in time; the server itself said nothing of the kind. */
function isBroken(error: unknown): boolean {
  return !(error instanceof pg.DatabaseError) && !isPoolTimeout(error);
}

/** All connections were busy for too long, which is no sign of a database that is away. */
function isPoolTimeout(error: unknown): boolean {
  return error instanceof Error && error.message === 'timeout exceeded when trying to connect';
}

function toUnavailable(error: unknown): unknown {
  if (error instanceof pg.DatabaseError && !UNAVAILABLE_CLASSES.has(error.code?.slice(0, 2) ?? '')) return error;
  return new StoreError('unavailable', 'The store cannot reach its database. Try again shortly.', { cause: error });
}
