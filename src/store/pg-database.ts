import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { callAfter } from '../clock.js';
import { overloaded, StoreError } from '../errors.js';
import { splitHosts } from '../setting-types.js';
import type { Connection, Database, Statement } from './database.js';
import { askOnce, createHosts } from './hosts.js';
import { addSettings } from './pg-session.js';
import { KnownStatement } from './pg-statement.js';
import { createSlots } from './slots.js';

interface PgDatabaseOptions {
  readonly url: string;
  readonly pool: number;
  /** Whether to use named prepared statements; poolers in transaction mode may not support them. */
  readonly prepare: boolean;
  readonly statementTimeoutMs?: number | undefined;
  readonly onConnectionError?: (error: Error) => void;
}

/** Connecting and one statement together take less than three seconds, the longest that a client waits. */
const CONNECT_TIMEOUT_MS = 1_250;
const STATEMENT_TIMEOUT_MS = 1_250;
/** How much later than the server the program gives a statement up, at the latest. */
const GIVE_UP_MS = 150;
/** How long to wait before the next attempt to connect, if the server has too many connections. */
const RETRY_CONNECTION_MS = 100;
/** A statement that fails within this time may be repeated on another host. */
const REPEAT_WITHIN_MS = 250;
const CANCEL_MS = 1_000;
const CANCEL = 'SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name LIKE $1';
/** How long a cancelled statement may take to end. Then the program closes its connection. */
const ABANDONED_MS = 30_000;
/** A migration or an export may take long. */
const TRANSACTION_TIMEOUT_MS = 3_600_000;
const MAX_REPEATS = 10;

// https://www.postgresql.org/docs/current/errcodes-appendix.html
const READ_ONLY = '25006';
const STARTING_UP = '57P03';
const TOO_MANY_CONNECTIONS = '53300';
/** How long the pool makes do with the connections that it has, if the server has refused another. */
const FEWER_CONNECTIONS_MS = 5_000;
/** Serialization failure and deadlock: PostgreSQL asks to repeat the transaction. */
const REPEATABLE: ReadonlySet<unknown> = new Set(['40001', '40P01']);
/** Classes of an unavailable database. A server refuses connections with 28, 3D and 55. */
const UNAVAILABLE_CLASSES: ReadonlySet<unknown> = new Set(['08', '25', '28', '3D', '53', '55', '57', '58']);

/** Creates a pool of connections to a PostgreSQL server. It connects with the first statement. */
export function createPgDatabase(options: PgDatabaseOptions): Database {
  const { pool: max, prepare, statementTimeoutMs = STATEMENT_TIMEOUT_MS, onConnectionError } = options;
  // pg means the same by these modes, but prints a warning of several lines.
  const urls = splitHosts(options.url.replace(/([?&]sslmode=)(?:prefer|require|verify-ca)(?=&|$)/, '$1verify-full'));
  // Throws now, and not with the first statement, if a certificate that a URL names cannot be read.
  for (const url of urls) new pg.Client({ connectionString: url });
  const hosts = createHosts(urls, replaceIdle);
  const firstSearch = hosts.search();
  /** By these, `cancel` finds the sessions of clients. */
  const ids = new WeakMap<pg.ClientBase, string>();
  const pool = new pg.Pool({
    // Each client connects to the host that is right at the time.
    Client: class extends pg.Client {
      constructor(config?: pg.ClientConfig) {
        const id = randomUUID();
        super({ ...config, connectionString: prepare ? addSettings(hosts.url(), id) : hosts.url() });
        if (prepare) ids.set(this, id);
      }
    },
    max,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    // Poolers refuse session settings, so the server's own settings apply there.
    ...(prepare && { statement_timeout: statementTimeoutMs, idle_in_transaction_session_timeout: 30_000 }),
    keepAlive: true,
    application_name: 'animal-store-gateway',
  });
  /** Unlike the queue of the pool, these tell a busy pool from a failure. */
  const slots = createSlots(max);
  pool.on('error', (error) => onConnectionError?.(error));
  // A connection that breaks in use fails its statement. Without a listener, this event would crash the process.
  pool.on('connect', (client) => client.on('error', () => undefined));

  return {
    async query<Row>(statement: Statement, values: readonly unknown[]): Promise<Row[]> {
      await firstSearch;
      const startedAt = performance.now();
      for (let repeats = 0; ; repeats += 1) {
        try {
          return (await run(statement, values)) as Row[];
        } catch (error) {
          if (!(await mayRepeat(error, statement.text, repeats, performance.now() - startedAt)))
            throw toUnavailable(error);
        }
      }
    },
    /** Runs `work` on one connection, and closes the connection if it fails: that also ends the transaction. */
    async transaction<T>(work: (connection: Connection) => Promise<T>): Promise<T> {
      await firstSearch;
      const client = await acquire().catch(throwUnavailable);
      const execute: Connection['execute'] = (text) => client.query(text).catch(throwUnavailable);
      let isDone = false;
      try {
        await execute(`BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL statement_timeout = ${TRANSACTION_TIMEOUT_MS}`);
        const result = await work({ execute });
        await execute('COMMIT');
        isDone = true;
        return result;
      } finally {
        release(client, !isDone);
      }
    },
    connections: () => ({ used: slots.used(), idle: pool.idleCount, waiting: slots.waiting(), max }),
    close() {
      hosts.close();
      return pool.end();
    },
  };

  async function run({ name, text, read }: Statement, values: readonly unknown[]): Promise<unknown[]> {
    const waitMs = statementTimeoutMs + GIVE_UP_MS;
    const deadline = performance.now() + CONNECT_TIMEOUT_MS + waitMs;
    const client = await acquire();
    return new Promise((resolve, reject) => {
      let isEnded = false;
      const end = (isUnusable: boolean): void => {
        if (!isEnded) release(client, isUnusable);
        isEnded = true;
      };
      let isGivenUp = false;
      const prevent = callAfter(Math.min(waitMs, deadline - performance.now()), () => {
        isGivenUp = true;
        reject(new Error('the statement took too long'));
        // Until the server has ended it, its connection counts as used, so that the server never has many more sessions
        // than the pool has connections.
        void cancel(client).then((isCancelled) => setTimeout(end, isCancelled ? ABANDONED_MS : 0, true).unref());
      });
      const callback = (error: Error | null | undefined, result: { readonly rows: unknown[] }): void => {
        prevent();
        // A late cancellation must not end another request's statement, so its connection is not used again.
        end(isGivenUp || (error instanceof Error && (isBroken(error) || codeOf(error) === READ_ONLY)));
        if (error) reject(error);
        else resolve(result.rows);
      };
      const config = { name: prepare ? name : '', text, values: values as string[] };
      if (read) client.query(new KnownStatement(config, read, callback));
      else client.query(config, callback);
    });
  }

  /**
   * Takes a connection, as soon as one is free, also if the server accepts fewer connections than the pool may have.
   * @throws StoreError `overloaded` if none is free in time
   */
  async function acquire(): Promise<pg.PoolClient> {
    const deadline = performance.now() + CONNECT_TIMEOUT_MS;
    for (;;) {
      await slots.take(deadline - performance.now());
      try {
        return await pool.connect();
      } catch (error) {
        const isBusy = codeOf(error) === TOO_MANY_CONNECTIONS;
        if (isBusy) slots.limit(pool.totalCount, FEWER_CONNECTIONS_MS);
        slots.free();
        if (!isBusy) throw error;
        if (performance.now() >= deadline) throw overloaded(error);
        await sleep(RETRY_CONNECTION_MS);
      }
    }
  }

  function release(client: pg.PoolClient, isUnusable: boolean): void {
    client.release(isUnusable);
    slots.free();
  }

  /**
   * Ends the statement of a client, also a commit that waits for a standby, which statement_timeout does not end. A
   * pooler hides which process serves a client, but ends the statement when the client leaves.
   * @returns whether the server has found it
   */
  async function cancel(client: pg.PoolClient): Promise<boolean> {
    const id = ids.get(client);
    if (id === undefined) return false;
    return askOnce(hosts.url(), CANCEL_MS, CANCEL, [`${id}%`]).then(
      ({ length }) => length > 0,
      () => false,
    );
  }

  /**
   * Whether to run a statement again that has failed, which may take until another host is found. A write whose
   * connection broke may have happened, so it is not repeated.
   */
  async function mayRepeat(error: unknown, text: string, repeats: number, ms: number): Promise<boolean> {
    const code = codeOf(error);
    if (REPEATABLE.has(code)) {
      // At random, so that the same transactions do not meet again.
      await sleep(Math.random() * 20);
      return repeats < MAX_REPEATS;
    }
    // A firewall may have dropped them all, and each dead one would cost a request its whole time limit.
    if (isBroken(error)) replaceIdle();
    const isNotPrimary = code === READ_ONLY || code === STARTING_UP;
    const hasNotRun = isNotPrimary || (error as NodeJS.ErrnoException).syscall === 'connect';
    const isSafe = hasNotRun || (text.startsWith('SELECT') && isUnavailable(error));
    const isToRepeat = urls.length > 1 && repeats === 0 && ms < REPEAT_WITHIN_MS && isSafe;
    // A primary that vanishes does not close its connections, so errors come late. Later statements need the search.
    if (!isToRepeat && !isBroken(error) && !isNotPrimary) return false;
    const search = hosts.search();
    if (isToRepeat) await search;
    return isToRepeat;
  }

  function replaceIdle(): void {
    for (let count = pool.idleCount; count > 0; count--) {
      pool.connect().then(
        (client) => client.release(true),
        () => undefined,
      );
    }
  }
}

function codeOf(error: unknown): string | undefined {
  return (error as NodeJS.ErrnoException).code;
}

/** Whether the connection failed or timed out, as opposed to an error that the server reported. */
function isBroken(error: unknown): boolean {
  return !(error instanceof pg.DatabaseError) && !(error instanceof StoreError);
}

function isUnavailable(error: unknown): boolean {
  return isBroken(error) || UNAVAILABLE_CLASSES.has(codeOf(error)?.slice(0, 2));
}

function throwUnavailable(error: unknown): never {
  throw toUnavailable(error);
}

function toUnavailable(error: unknown): unknown {
  if (error instanceof StoreError || !isUnavailable(error)) return error;
  return new StoreError('unavailable', 'The store cannot reach its database. Try again shortly.', { cause: error });
}
