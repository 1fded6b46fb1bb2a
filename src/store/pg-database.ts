import { connect } from 'node:net';
import pg from 'pg';
import { overloaded, StoreError } from '../errors.js';
import { splitHosts } from '../setting-types.js';
import type { Database, Session, Statement } from './database.js';
import { createHosts } from './hosts.js';

interface PgDatabaseOptions {
  readonly url: string;
  readonly pool: number;
  /** Whether to use named prepared statements; poolers in transaction mode may not support them. */
  readonly prepare: boolean;
  readonly statementTimeoutMs?: number;
  /** Called when an idle connection breaks; the pool replaces it. */
  readonly onConnectionError?: (error: Error) => void;
}

/** Connecting and one statement together take less than three seconds, the longest that a client waits. */
const CONNECT_TIMEOUT_MS = 1_250;
const STATEMENT_TIMEOUT_MS = 1_250;
/** How much later the program gives a statement up by itself. */
const GIVE_UP_MS = 150;
/** A statement that fails within this time may be repeated on another host. */
const REPEAT_WITHIN_MS = 250;
/** How long a cancelled statement may take to end. Then the program closes its connection. */
const ABANDONED_MS = 30_000;

/**
 * Every statement of a request can read an index in the order it needs, at any table size. These settings make
 * PostgreSQL plan that way, and only once per statement. By default it plans a list anew each time, and a plan for a
 * few rows reads the whole table and stays until the table is analysed again. To compile a plan takes longer than to run
 * it. `options` in the URL replace these settings.
 */
const LASTING_PLANS = '-c plan_cache_mode=force_generic_plan -c enable_seqscan=off -c jit=off';

/** Only commands and migrations use sessions. A migration may take long. */
const SESSION_TIMEOUT_MS = 3_600_000;

/** Creates a pool of connections to a PostgreSQL server. It connects with the first statement. */
export function createPgDatabase(options: PgDatabaseOptions): Database {
  const { pool: max, prepare, statementTimeoutMs = STATEMENT_TIMEOUT_MS, onConnectionError } = options;
  // pg means the same by these modes, but prints a warning of several lines.
  const url = options.url.replace(/([?&]sslmode=)(?:prefer|require|verify-ca)(?=&|$)/, '$1verify-full');
  // An int8 as the server sent it: pg's own parser looks at each digit again.
  pg.types.setTypeParser(pg.types.builtins.INT8, (text) => text);
  const urls = splitHosts(url);
  // Throws now, and not with the first statement, if a certificate that the URL names cannot be read.
  for (const one of urls) new pg.Client({ connectionString: one });
  const hosts = urls.length > 1 ? createHosts(urls, retireIdle) : undefined;
  const firstSearch = hosts?.search();
  const pool = new pg.Pool({
    // Each client connects to the host that is right at the time.
    Client: class extends pg.Client {
      constructor(config?: pg.ClientConfig) {
        super({ ...config, connectionString: hosts?.url ?? url });
      }
    },
    max,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    // Poolers refuse session settings, so the server's own settings apply there.
    ...(prepare && {
      statement_timeout: statementTimeoutMs,
      idle_in_transaction_session_timeout: 30_000,
      options: LASTING_PLANS,
    }),
    keepAlive: true,
    application_name: 'animal-store-gateway',
  });
  pool.on('error', (error) => onConnectionError?.(error));
  // A connection that breaks in use fails its statement, and emits this event as well. Without a listener, it would
  // crash the process.
  pool.on('connect', (client) => client.on('error', () => undefined));

  return {
    async query<Row>({ name, text }: Statement, values: readonly unknown[]): Promise<Row[]> {
      const config = { text, values: values as unknown[] };
      if (firstSearch) await firstSearch;
      const startedAt = performance.now();
      for (let isRepeated = false; ; isRepeated = true) {
        try {
          return (await run(prepare ? { name, ...config } : config)) as Row[];
        } catch (error) {
          if (isBroken(error)) retireIdle();
          const isEarly = performance.now() - startedAt < REPEAT_WITHIN_MS;
          const isToRepeat = !isRepeated && isEarly && mayRepeat(error, text);
          // A primary that vanishes does not close its connections, so errors come late. Later statements need the
          // search.
          const searching = isToRepeat || isBroken(error) || isNotPrimary(error) ? hosts?.search() : undefined;
          if (searching && isToRepeat) await searching;
          else throw toFailure(error);
        }
      }
    },
    session: (work) =>
      withClient(async (session) => {
        // Behind a pooler, other programs would inherit a setting of the session.
        if (!prepare) return work(session);
        await session.execute(`SET statement_timeout = ${SESSION_TIMEOUT_MS}`);
        const result = await work(session);
        await session.execute('RESET statement_timeout');
        return result;
      }),
    transaction: (work) =>
      withClient(async (session) => {
        await session.execute(`BEGIN; SET LOCAL statement_timeout = ${SESSION_TIMEOUT_MS}`);
        const result = await work(session);
        await session.execute('COMMIT');
        return result;
      }),
    connections: () => ({
      used: pool.totalCount - pool.idleCount,
      idle: pool.idleCount,
      waiting: pool.waitingCount,
      max,
    }),
    close: () => {
      hosts?.close();
      return pool.end();
    },
  };

  async function run(config: pg.QueryConfig): Promise<unknown[]> {
    const client = await pool.connect();
    let isReleased = false;
    let isGivenUp = false;
    const release = (isBroken?: boolean): void => {
      if (!isReleased) client.release(isBroken);
      isReleased = true;
    };
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        isGivenUp = true;
        reject(new Error('the statement took too long'));
        // Until the server has ended it, its connection counts as used, so that the server never has many more sessions
        // than the pool has connections.
        void cancelStatement(client).then((isCancelled) => {
          setTimeout(release, isCancelled ? ABANDONED_MS : 0, true).unref();
        });
      }, statementTimeoutMs + GIVE_UP_MS);
      client.query(config, (error: Error | undefined, result: pg.QueryResult) => {
        clearTimeout(timer);
        // A late cancellation must not end another request's statement, so its connection is not used again.
        release(isGivenUp || (error && (isBroken(error) || (error as NodeJS.ErrnoException).code === READ_ONLY)));
        if (error) reject(error);
        else resolve(result.rows as unknown[]);
      });
    });
  }

  function toFailure(error: unknown): unknown {
    const isBusy = isPoolTimeout(error) && pool.totalCount >= max && pool.idleCount === 0;
    return isBusy ? overloaded(error) : toUnavailable(error);
  }

  /** Runs `work` on one connection, and closes the connection if it fails: that also ends a transaction. */
  async function withClient<T>(work: (session: Session) => Promise<T>): Promise<T> {
    if (firstSearch) await firstSearch;
    const client = await pool.connect().catch(throwUnavailable);
    try {
      const result = await work({ execute: (text) => client.query(text).catch(throwUnavailable) });
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

const READ_ONLY = '25006';
const STARTING_UP = '57P03';

/**
 * SQLSTATE classes of an unavailable database. A server refuses connections with 28, 3D and 55.
 * https://www.postgresql.org/docs/current/errcodes-appendix.html
 */
const UNAVAILABLE_CLASSES = new Set(['08', '25', '28', '3D', '53', '55', '57', '58']);

function isUnavailable(error: unknown): boolean {
  return !(error instanceof pg.DatabaseError) || UNAVAILABLE_CLASSES.has(error.code?.slice(0, 2) ?? '');
}

/** Whether the connection failed or timed out, as opposed to an error that the server reported. */
function isBroken(error: unknown): boolean {
  return !(error instanceof pg.DatabaseError) && !isPoolTimeout(error);
}

/** Whether all connections were busy for too long. The database itself may be fine. */
function isPoolTimeout(error: unknown): boolean {
  return error instanceof Error && error.message === 'timeout exceeded when trying to connect';
}

/** Whether the server is no primary, or not yet. */
function isNotPrimary(error: unknown): boolean {
  const { code } = error as NodeJS.ErrnoException;
  return code === READ_ONLY || code === STARTING_UP;
}

/**
 * Whether a statement may run again on another host: it reads, or it has certainly not run. A write whose connection
 * broke may have happened.
 */
function mayRepeat(error: unknown, text: string): boolean {
  const { syscall } = error as NodeJS.ErrnoException;
  return syscall === 'connect' || isNotPrimary(error) || (text.startsWith('SELECT') && isUnavailable(error));
}

function throwUnavailable(error: unknown): never {
  throw toUnavailable(error);
}

function toUnavailable(error: unknown): unknown {
  if (!isUnavailable(error)) return error;
  return new StoreError('unavailable', 'The store cannot reach its database. Try again shortly.', { cause: error });
}

const CANCEL_REQUEST = 80_877_102;
const CANCEL_ANSWER_MS = 1_000;

/**
 * Asks the server to end the statement of a client, on a connection of its own. That also ends a commit that waits for
 * a standby, which statement_timeout does not.
 * https://www.postgresql.org/docs/current/protocol-flow.html#PROTOCOL-FLOW-CANCELING-REQUESTS
 * @returns whether the server has processed the request
 */
function cancelStatement(client: pg.ClientBase): Promise<boolean> {
  // The type of a client lacks these properties.
  const { host, port, processID, secretKey } = client as unknown as Record<'port' | 'processID' | 'secretKey', number> &
    Record<'host', string>;
  const message = Buffer.alloc(16);
  [message.length, CANCEL_REQUEST, processID, secretKey].forEach((value, i) => message.writeInt32BE(value, 4 * i));
  return new Promise((resolve) => {
    const socket = connect(host.startsWith('/') ? { path: `${host}/.s.PGSQL.${port}` } : { host, port });
    let isAnswered = false;
    socket.setTimeout(CANCEL_ANSWER_MS, () => socket.destroy());
    // The server sends nothing, and closes the connection once it has processed the request.
    socket.on('error', () => undefined).on('end', () => (isAnswered = true));
    socket.once('close', () => resolve(isAnswered)).resume();
    socket.write(message);
  });
}
