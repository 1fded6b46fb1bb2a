import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { callAfter } from '../clock.js';
import { overloaded } from '../errors.js';
import { splitHosts } from '../setting-types.js';
import { createSlots } from './connection-slots.js';
import type { Connection, Database, Statement } from './database.js';
import { createHosts } from './hosts.js';
import { READ_ONLY, isBroken, isNotPrimary, mayRepeat, throwUnavailable, toUnavailable } from './pg-errors.js';
import { addSettings } from './pg-session.js';

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
/** How much later the program gives a statement up by itself, at the latest. */
const GIVE_UP_MS = 150;
/** A statement that fails within this time may be repeated on another host. */
const REPEAT_WITHIN_MS = 250;
const CANCEL_MS = 1_000;
const CANCEL = 'SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE application_name LIKE $1';
/** How long to wait before the next attempt to connect, if the server has refused one. */
const RETRY_CONNECTION_MS = 50;
/** How long a cancelled statement may take to end. Then the program closes its connection. */
const ABANDONED_MS = 30_000;

/** A migration or an export may take long. */
const TRANSACTION_TIMEOUT_MS = 3_600_000;

/** PostgreSQL asks to repeat a transaction with these codes: serialization failure and deadlock. */
const REPEATABLE: ReadonlySet<unknown> = new Set(['40001', '40P01']);
const MAX_REPEATS = 10;

const TOO_MANY_CONNECTIONS = '53300';

/** Creates a pool of connections to a PostgreSQL server. It connects with the first statement. */
export function createPgDatabase(options: PgDatabaseOptions): Database {
  const { pool: max, prepare, statementTimeoutMs = STATEMENT_TIMEOUT_MS, onConnectionError } = options;
  // pg means the same by these modes, but prints a warning of several lines.
  const url = options.url.replace(/([?&]sslmode=)(?:prefer|require|verify-ca)(?=&|$)/, '$1verify-full');
  const urls = splitHosts(url);
  // Throws now, and not with the first statement, if a certificate that the URL names cannot be read.
  for (const one of urls) new pg.Client({ connectionString: one });
  const hosts = urls.length > 1 ? createHosts(urls, retireIdle) : undefined;
  const firstSearch = hosts?.search();
  /** By these, `cancelStatement` finds the sessions of clients. */
  const ids = new WeakMap<pg.ClientBase, string>();
  const pool = new pg.Pool({
    // Each client connects to the host that is right at the time.
    Client: class extends pg.Client {
      constructor(config?: pg.ClientConfig) {
        const connectionString = hosts?.url ?? url;
        const id = randomUUID();
        super({ ...config, connectionString: prepare ? addSettings(connectionString, id) : connectionString });
        if (prepare) ids.set(this, id);
      }
    },
    max,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    // Poolers refuse session settings, so the server's own settings apply there.
    ...(prepare && {
      statement_timeout: statementTimeoutMs,
      idle_in_transaction_session_timeout: 30_000,
    }),
    keepAlive: true,
    application_name: 'animal-store-gateway',
  });
  const slots = createSlots(max);
  pool.on('error', (error) => onConnectionError?.(error));
  // A connection that breaks in use fails its statement, and emits this event as well. Without a listener, it would
  // crash the process.
  pool.on('connect', (client) => client.on('error', () => undefined));

  return {
    async query<Row>({ name, text }: Statement, values: readonly unknown[]): Promise<Row[]> {
      const config = { text, values: values as unknown[] };
      if (firstSearch) await firstSearch;
      const startedAt = performance.now();
      for (let repeats = 0; ; repeats += 1) {
        try {
          return (await run(prepare ? { name, ...config } : config)) as Row[];
        } catch (error) {
          const { code } = error as NodeJS.ErrnoException;
          if (REPEATABLE.has(code) && repeats < MAX_REPEATS) {
            // At random, so that the same transactions do not meet again.
            await sleep(Math.random() * 20);
            continue;
          }
          if (isBroken(error)) retireIdle();
          const isEarly = performance.now() - startedAt < REPEAT_WITHIN_MS;
          const isToRepeat = repeats === 0 && isEarly && mayRepeat(error, text);
          // A primary that vanishes does not close its connections, so errors come late. Later statements need the
          // search.
          const searching = isToRepeat || isBroken(error) || isNotPrimary(error) ? hosts?.search() : undefined;
          if (searching && isToRepeat) await searching;
          else throw toUnavailable(error);
        }
      }
    },
    /** Runs `work` on one connection, and closes the connection if it fails: that also ends the transaction. */
    async transaction<T>(work: (connection: Connection) => Promise<T>): Promise<T> {
      if (firstSearch) await firstSearch;
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
    connections: () => ({
      used: pool.totalCount - pool.idleCount,
      idle: pool.idleCount,
      waiting: slots.waiting(),
      max,
    }),
    close: () => {
      hosts?.close();
      return pool.end();
    },
  };

  async function run(config: pg.QueryConfig): Promise<unknown[]> {
    const waitMs = statementTimeoutMs + GIVE_UP_MS;
    const deadline = performance.now() + CONNECT_TIMEOUT_MS + waitMs;
    const client = await acquire();
    return new Promise((resolve, reject) => {
      let isGivenUp = false;
      let abandoned: NodeJS.Timeout | undefined;
      const prevent = callAfter(Math.min(waitMs, deadline - performance.now()), () => {
        isGivenUp = true;
        reject(new Error('the statement took too long'));
        // Until the server has ended it, its connection counts as used, so that the server never has many more sessions
        // than the pool has connections.
        void cancelStatement(client).then((isCancelled) => {
          abandoned = setTimeout(end, isCancelled ? ABANDONED_MS : 0, true).unref();
        });
      });
      let isReleased = false;
      const end = (isUnusable = false): void => {
        if (!isReleased) release(client, isUnusable);
        isReleased = true;
      };
      client.query(config, (error: Error | null | undefined, result: pg.QueryResult) => {
        prevent();
        clearTimeout(abandoned);
        // A late cancellation must not end another request's statement, so its connection is not used again.
        const isUnusable = error ? isBroken(error) || (error as NodeJS.ErrnoException).code === READ_ONLY : false;
        end(isGivenUp || isUnusable);
        if (error) reject(error);
        else resolve(result.rows as unknown[]);
      });
    });
  }

  /**
   * Takes a connection, as soon as one is free. If the server accepts fewer connections than the pool may have, the pool
   * makes do with those for a while.
   * @throws StoreError `overloaded` if none is free in time
   */
  async function acquire(): Promise<pg.PoolClient> {
    const deadline = performance.now() + CONNECT_TIMEOUT_MS;
    for (;;) {
      await slots.take(deadline - performance.now());
      try {
        return await pool.connect();
      } catch (error) {
        const isRefused = (error as NodeJS.ErrnoException).code === TOO_MANY_CONNECTIONS;
        if (isRefused) slots.limit(Math.max(1, pool.totalCount));
        slots.free();
        if (!isRefused) throw error;
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
   * Ends the statement of a client, on a connection of its own. That also ends a commit that waits for a standby, which
   * statement_timeout does not. A pooler hides which process serves a client: it ends the statement when the client leaves.
   * @returns whether the server has been asked
   */
  async function cancelStatement(client: pg.PoolClient): Promise<boolean> {
    const id = ids.get(client);
    if (id === undefined) return false;
    const timeouts = { connectionTimeoutMillis: CANCEL_MS, query_timeout: CANCEL_MS };
    const canceller = new pg.Client({ connectionString: hosts?.url ?? url, ...timeouts });
    canceller.on('error', () => undefined);
    try {
      await canceller.connect();
      await canceller.query(CANCEL, [`% ${id}`]);
      return true;
    } catch {
      return false;
    } finally {
      void canceller.end().catch(() => undefined);
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
