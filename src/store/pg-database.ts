import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { chain, type MaybePromise } from '../access/maybe-promise.js';
import { callAfter } from '../clock.js';
import { splitHosts } from '../setting-types.js';
import type { Database, Execute, Statement } from './database.js';
import {
  codeOf,
  isBroken,
  isOutdated,
  isSelect,
  isUnavailable,
  mayMove,
  READ_ONLY,
  TOO_MANY_CONNECTIONS,
  toUnavailable,
  UNDONE,
} from './pg-errors.js';
import { askOnce, createHosts } from './pg-hosts.js';
import { KnownStatement } from './pg-statement.js';
import { createSlots } from './slots.js';

interface PgDatabaseOptions {
  readonly url: string;
  readonly pool: number;
  /** Whether to use named prepared statements and settings of the session. Poolers may not support them. */
  readonly prepare: boolean;
  readonly statementTimeoutMs?: number | undefined;
  readonly onConnectionError?: (error: Error) => void;
}

/** Waiting or connecting and one statement together take less than three seconds, the longest that a client waits. */
const WAIT_TIMEOUT_MS = 1_000;
const CONNECT_TIMEOUT_MS = 1_250;
const STATEMENT_TIMEOUT_MS = 1_250;
/** How much later than the server the program gives up. */
const GIVE_UP_MS = 150;
/** A statement that fails within this time may be repeated on another host. */
const MOVE_WITHIN_MS = 250;
const MAX_REPEATS = 10;
/** A connection that is not used for this long is closed, up to twice as late. */
const IDLE_MS = 10_000;
/** How long the pool makes do with the connections that it has, if the server has refused another. */
const FEWER_CONNECTIONS_MS = 5_000;
/** A migration or an export may take long. */
const TRANSACTION_TIMEOUT_MS = 3_600_000;

/**
 * What the statements and the parsing of their results depend on, whatever the database or the role has set. Behind a
 * pooler this cannot be set, so statements that grant access return values that depend on none of it. The last five
 * make plans that last, at any table size: a statement of a request reads an index in the order it needs, and a report
 * adds up in memory what it would otherwise sort on disk.
 */
const SETTINGS =
  '-c DateStyle=ISO -c IntervalStyle=postgres -c TimeZone=UTC -c bytea_output=hex -c extra_float_digits=1 ' +
  '-c array_nulls=on -c standard_conforming_strings=on -c default_transaction_isolation=read\\ committed ' +
  '-c idle_session_timeout=0 -c plan_cache_mode=force_generic_plan -c enable_seqscan=off -c enable_sort=off ' +
  '-c jit=off -c work_mem=64MB';

/**
 * Creates a pool of connections to a PostgreSQL server. It connects with the first statement. If the URL names several
 * hosts, it follows the primary.
 */
export function createPgDatabase(options: PgDatabaseOptions): Database {
  const { pool: max, prepare, statementTimeoutMs = STATEMENT_TIMEOUT_MS, onConnectionError } = options;
  // pg means the same by these modes, but prints a warning of several lines.
  const urls = splitHosts(options.url.replace(/([?&]sslmode=)(?:prefer|require|verify-ca)(?=&|$)/, '$1verify-full'));
  // Throws now, and not with the first statement, if a certificate that a URL names cannot be read.
  for (const url of urls) new pg.Client({ connectionString: url });
  const hosts = createHosts(urls, () => void closeIdle());

  class Client extends pg.Client {
    /** Begins its `application_name`, so that its session can be found on the server. */
    readonly id: string;
    /** The names of the statements that the server keeps. */
    readonly parsed = prepare ? new Set<string>() : undefined;

    constructor() {
      const id = randomUUID();
      super({
        connectionString: prepare ? addSettings(hosts.url(), id) : hosts.url(),
        connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
        ...(prepare && { statement_timeout: statementTimeoutMs, idle_in_transaction_session_timeout: 30_000 }),
        keepAlive: true,
        application_name: 'animal-store-gateway',
      });
      this.id = id;
      this.on('error', (error) => {
        // A connection that breaks in use fails its statement.
        const index = idle.indexOf(this);
        if (index === -1) return;
        idle.splice(index, 1);
        void end(this);
        onConnectionError?.(error);
      });
    }
  }

  /** Unlike the queue of pg-pool, these tell a busy pool from a failure. */
  const slots = createSlots(max);
  const open = new Set<Client>();
  /** Those that no statement uses. The last one is used next. */
  const idle: Client[] = [];
  /** How many of them, from the first on, no statement has used since they were last counted. */
  let unused = 0;
  const timer = setInterval(() => {
    for (const client of idle.splice(0, unused)) void end(client);
    unused = idle.length;
  }, IDLE_MS).unref();
  let isClosed = false;
  const firstSearch = hosts.search();

  return {
    async query<Row>(statement: Statement, values: readonly unknown[]): Promise<Row[]> {
      if (urls.length > 1) await firstSearch;
      const startedAt = performance.now();
      for (let repeats = 0; ; repeats += 1) {
        const deadline = performance.now() + CONNECT_TIMEOUT_MS + statementTimeoutMs + GIVE_UP_MS;
        try {
          const acquired = acquire(!isSelect(statement.text));
          const client = acquired instanceof Promise ? await acquired : acquired;
          return (await run(client, statement, values, deadline)) as Row[];
        } catch (error) {
          if ((UNDONE.has(codeOf(error)) || isOutdated(error)) && repeats < MAX_REPEATS) {
            // At random, so that the same transactions do not meet again.
            await sleep(Math.random() * 20);
            continue;
          }
          const recovering = recover(error);
          const isLate = performance.now() - startedAt > MOVE_WITHIN_MS;
          if (urls.length === 1 || repeats > 0 || isLate || !mayMove(error, statement.text)) throw toUnavailable(error);
          await recovering;
        }
      }
    },
    /** If `work` fails, closing the connection also ends the transaction. */
    async transaction<T>(work: (execute: Execute) => Promise<T>): Promise<T> {
      await firstSearch;
      const fail = (error: unknown): never => {
        void recover(error);
        throw toUnavailable(error);
      };
      const client = await Promise.resolve(acquire(true)).catch(fail);
      const execute: Execute = (text) => client.query(text).catch(fail);
      let isDone = false;
      try {
        await execute(`BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL statement_timeout = ${TRANSACTION_TIMEOUT_MS}`);
        const result = await work(execute);
        await execute('COMMIT');
        isDone = true;
        return result;
      } finally {
        release(client, true, !isDone);
      }
    },
    connections: () => ({ used: slots.used(), idle: idle.length, waiting: slots.waiting(), max }),
    /** A connection in use closes after its statement. */
    async close(): Promise<void> {
      isClosed = true;
      clearInterval(timer);
      await closeIdle();
    },
  };

  function run(client: Client, statement: Statement, values: readonly unknown[], deadline: number): Promise<unknown[]> {
    const { name, text, read } = statement;
    const isWrite = !isSelect(text);
    const waitMs = Math.min(statementTimeoutMs + GIVE_UP_MS, deadline - performance.now());
    return new Promise((resolve, reject) => {
      let isGivenUp = false;
      const prevent = callAfter(waitMs, () => {
        isGivenUp = true;
        reject(new Error('the statement took too long'));
        // Until then, its connection counts as used, so that the server never has many more sessions.
        void endSession(client).then(() => release(client, isWrite, true));
      });
      const callback = (error: Error | null | undefined, result: { readonly rows: unknown[] }): void => {
        if (isGivenUp) return;
        prevent();
        release(
          client,
          isWrite,
          error instanceof Error && (isBroken(error) || codeOf(error) === READ_ONLY || isOutdated(error)),
        );
        if (error) reject(error);
        else resolve(result.rows);
      };
      if (read) client.query(new KnownStatement(statement, read, values as string[], client.parsed, callback));
      else client.query({ name: prepare ? name : '', text, values: values as unknown[] }, callback);
    });
  }

  /** @throws StoreError `overloaded` if no connection is free in time */
  function acquire(isWrite: boolean): MaybePromise<Client> {
    return chain(slots.take(isWrite, WAIT_TIMEOUT_MS), () => {
      const client = idle.pop();
      unused = Math.min(unused, idle.length);
      return client ?? connect(isWrite);
    });
  }

  /** If the server has no more connections, waits for one that is open. */
  async function connect(isWrite: boolean): Promise<Client> {
    const client = new Client();
    try {
      if (isClosed) throw new Error('the database is closed');
      await client.connect();
      open.add(client);
      return client;
    } catch (error) {
      void end(client);
      const isFull = codeOf(error) === TOO_MANY_CONNECTIONS && open.size > 0;
      if (isFull) slots.limitTo(open.size, FEWER_CONNECTIONS_MS);
      slots.free(isWrite);
      if (isFull) return acquire(isWrite);
      throw error;
    }
  }

  function release(client: Client, isWrite: boolean, isUnusable: boolean): void {
    if (isUnusable || isClosed) void end(client);
    else idle.push(client);
    slots.free(isWrite);
  }

  function end(client: Client): Promise<void> {
    open.delete(client);
    return client.end().catch(ignore);
  }

  /**
   * Ends the session of a client on the server, also in a commit that waits for a standby, which statement_timeout does
   * not end. A pooler hides which session serves a client, but ends its statement when the client leaves.
   */
  async function endSession({ id }: Client): Promise<void> {
    const text = 'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE $1';
    if (prepare) await askOnce(hosts.url(), text, [`${id}%`]).catch(ignore);
  }

  /** After a failure, drops connections that a firewall may have dropped too, and looks for the primary. */
  async function recover(error: unknown): Promise<void> {
    if (isBroken(error)) void closeIdle();
    if (isUnavailable(error)) await hosts.search();
  }

  async function closeIdle(): Promise<void> {
    await Promise.all(idle.splice(0).map(end));
  }
}

/** Adds what every connection sets to a URL. PostgreSQL keeps 63 bytes of the `application_name`. */
function addSettings(text: string, id: string): string {
  const url = new URL(text);
  const { searchParams } = url;
  searchParams.set('application_name', `${id} ${searchParams.get('application_name') ?? 'animal-store-gateway'}`);
  searchParams.set('options', `${searchParams.get('options') ?? ''} ${SETTINGS}`);
  return url.href;
}

const ignore = (): undefined => undefined;
