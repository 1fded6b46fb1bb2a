import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { overloaded, StoreError } from '../errors.js';
import { splitHosts } from '../setting-types.js';
import type { Connection, Database, Statement } from './database.js';
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
const CANCEL_MS = 1_000;
/** How long to wait before the next attempt to connect, if the server has refused one. */
const RETRY_CONNECTION_MS = 50;
/** How long a cancelled statement may take to end. Then the program closes its connection. */
const ABANDONED_MS = 30_000;

/**
 * Every statement of a request can read an index in the order it needs, at any table size. These settings make
 * PostgreSQL plan that way, and only once per statement. By default it plans a list anew each time, and a plan for a
 * few rows reads the whole table and stays until the table is analysed again. To compile a plan takes longer than to run
 * it. `options` in the URL replace these settings.
 */
const LASTING_PLANS = '-c plan_cache_mode=force_generic_plan -c enable_seqscan=off -c jit=off';

/**
 * What the statements and the parsing of their results depend on, whatever the database or the role has set. Behind a
 * pooler this cannot be set, so statements that grant access return values that depend on none of it.
 */
const SETTINGS = [
  ...['DateStyle=ISO', 'IntervalStyle=postgres', 'TimeZone=UTC', 'bytea_output=hex', 'extra_float_digits=1'],
  ...['array_nulls=on', 'standard_conforming_strings=on', 'default_transaction_isolation=read\\ committed'],
]
  .map((setting) => `-c ${setting}`)
  .join(' ');

/** A migration or an export may take long. */
const TRANSACTION_TIMEOUT_MS = 3_600_000;

/** PostgreSQL asks to repeat a transaction with these codes: serialization failure and deadlock. */
const REPEATABLE: ReadonlySet<unknown> = new Set(['40001', '40P01']);
const MAX_REPEATS = 10;

const TOO_MANY_CONNECTIONS = '53300';
/** How long to use fewer connections, after the server has refused one. */
const FEWER_FOR_MS = 10_000;
const DISK_FULL = '53100';
/** A disk counts as full until the same statement succeeds, or for this long. */
const FULL_FOR_MS = 60_000;

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
  const pids = new WeakMap<pg.ClientBase, number>();
  const pool = new pg.Pool({
    // Each client connects to the host that is right at the time.
    Client: class extends pg.Client {
      constructor(config?: pg.ClientConfig) {
        const connectionString = hosts?.url ?? url;
        super({ ...config, connectionString: prepare ? addOptions(connectionString) : connectionString });
      }
    },
    max,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    // Poolers refuse session settings, so the server's own settings apply there.
    ...(prepare && {
      statement_timeout: statementTimeoutMs,
      idle_in_transaction_session_timeout: 30_000,
    }),
    types: { getTypeParser },
    // The address of a process for `cancelStatement`.
    ...(prepare && {
      onConnect: rememberPid,
    }),
    keepAlive: true,
    application_name: 'animal-store-gateway',
  });
  const slots = createSlots(max);
  /** The statement that found the disk full. */
  let full: { readonly name: string; readonly at: number } | undefined;
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
          const rows = (await run(prepare ? { name, ...config } : config)) as Row[];
          if (full?.name === name) full = undefined;
          return rows;
        } catch (error) {
          const { code } = error as NodeJS.ErrnoException;
          if (REPEATABLE.has(code) && repeats < MAX_REPEATS) {
            // At random, so that the same transactions do not meet again.
            await sleep(Math.random() * 20);
            continue;
          }
          if (code === DISK_FULL) full = { name, at: performance.now() };
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
    checkSpace: () => {
      const isFull = full && performance.now() - full.at < FULL_FOR_MS;
      return isFull ? Promise.reject(diskFull()) : Promise.resolve();
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

  /** Returns a promise, for which the pool waits. Its type does not say so. */
  function rememberPid(client: pg.ClientBase): unknown {
    return client
      .query<{ pid: number }>('SELECT pg_backend_pid() AS pid')
      .then(({ rows }) => pids.set(client, rows[0]?.pid as number));
  }

  async function run(config: pg.QueryConfig): Promise<unknown[]> {
    const client = await acquire();
    return new Promise((resolve, reject) => {
      let isGivenUp = false;
      let abandoned: NodeJS.Timeout | undefined;
      const timer = setTimeout(() => {
        isGivenUp = true;
        reject(new Error('the statement took too long'));
        // Until the server has ended it, its connection counts as used, so that the server never has many more sessions
        // than the pool has connections.
        void cancelStatement(client).then((isCancelled) => {
          abandoned = setTimeout(end, isCancelled ? ABANDONED_MS : 0, true).unref();
        });
      }, statementTimeoutMs + GIVE_UP_MS);
      let isReleased = false;
      const end = (isUnusable = false): void => {
        if (!isReleased) release(client, isUnusable);
        isReleased = true;
      };
      client.query(config, (error: Error | null | undefined, result: pg.QueryResult) => {
        clearTimeout(timer);
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
    const pid = pids.get(client);
    if (pid === undefined) return false;
    const timeouts = { connectionTimeoutMillis: CANCEL_MS, query_timeout: CANCEL_MS };
    const canceller = new pg.Client({ connectionString: hosts?.url ?? url, ...timeouts });
    canceller.on('error', () => undefined);
    try {
      await canceller.connect();
      await canceller.query('SELECT pg_cancel_backend($1)', [pid]);
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

/** Limits how many callers have a connection at once. Unlike the queue of the pool, it tells a busy pool from a failure. */
function createSlots(max: number) {
  let size = max;
  let used = 0;
  let waiting: (() => void)[] = [];
  let timer: NodeJS.Timeout | undefined;

  return {
    /** @throws StoreError `overloaded` if no slot is free in time */
    take(timeoutMs: number): Promise<void> {
      if (used < size) {
        used += 1;
        return Promise.resolve();
      }
      return new Promise((resolve, reject) => {
        const start = (): void => {
          clearTimeout(timeout);
          resolve();
        };
        const timeout = setTimeout(() => {
          waiting = waiting.filter((one) => one !== start);
          reject(overloaded());
        }, timeoutMs);
        waiting.push(start);
      });
    },
    free(): void {
      used -= 1;
      startNext();
    },
    /** Has at most this many slots for a while. */
    limit(count: number): void {
      size = Math.min(size, count);
      clearTimeout(timer);
      timer = setTimeout(() => {
        size = max;
        startNext();
      }, FEWER_FOR_MS).unref();
    },
    waiting: () => waiting.length,
  };

  function startNext(): void {
    while (used < size && waiting.length > 0) {
      used += 1;
      waiting.shift()?.();
    }
  }
}

/** Adds what every connection sets to the `options` of a URL, which may replace only the settings of plans. */
function addOptions(text: string): string {
  const url = new URL(text);
  url.searchParams.set('options', [LASTING_PLANS, url.searchParams.get('options'), SETTINGS].join(' ').trim());
  return url.href;
}

/** Like pg's own parsers, except that an int8 stays as the server sent it, and a time that pg cannot read is an error. */
const getTypeParser: typeof pg.types.getTypeParser = (oid: number, ...format: unknown[]) => {
  const { INT8, TIMESTAMPTZ }: Record<string, number> = pg.types.builtins;
  if (oid === INT8) return (text: string) => text;
  const parse = (pg.types.getTypeParser as (...args: unknown[]) => (text: string) => unknown)(oid, ...format);
  if (oid !== TIMESTAMPTZ) return parse;
  return (text: string) => {
    const time = parse(text);
    if (time === null) throw new Error('the database sent a time that is not in ISO format');
    return time;
  };
};

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
  return !(error instanceof pg.DatabaseError) && !(error instanceof StoreError);
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
  if (error instanceof StoreError || !isUnavailable(error)) return error;
  if ((error as NodeJS.ErrnoException).code === DISK_FULL) return diskFull(error);
  return new StoreError('unavailable', 'The store cannot reach its database. Try again shortly.', { cause: error });
}

function diskFull(cause?: unknown): StoreError {
  return new StoreError('unavailable', 'The disk of the store is full.', { cause, retryAfter: 5 });
}
