import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { callAfter } from '../clock.js';
import { splitHosts } from '../setting-types.js';
import type { Database, Execute, Statement } from './database.js';
import {
  codeOf,
  endsConnection,
  isBroken,
  isOutdated,
  isUnavailable,
  mayMove,
  toUnavailable,
  UNDONE,
} from './pg-errors.js';
import { createHosts } from './pg-hosts.js';
import { CONNECT_TIMEOUT_MS, createPgPool, type PgClient } from './pg-pool.js';
import { KnownStatement } from './pg-statement.js';

interface PgDatabaseOptions {
  readonly url: string;
  readonly pool: number;
  /** Whether to use named prepared statements and settings of the session. Poolers may not support them. */
  readonly prepare: boolean;
  readonly statementTimeoutMs?: number;
  readonly onConnectionError?: (error: Error) => void;
}

const STATEMENT_TIMEOUT_MS = 1_250;
/** How much later than the server the program gives up. */
const GIVE_UP_MS = 150;
/** A statement that fails within this time may be repeated on another host. */
const MOVE_WITHIN_MS = 250;
const MAX_REPEATS = 10;
/** A migration or an export may take long. */
const TRANSACTION_TIMEOUT_MS = 3_600_000;

/**
 * Creates the database of a PostgreSQL server. It connects with the first statement. If the URL names several
 * hosts, it follows the primary.
 */
export function createPgDatabase(options: PgDatabaseOptions): Database {
  const { prepare, statementTimeoutMs = STATEMENT_TIMEOUT_MS, onConnectionError } = options;
  // pg means the same by these modes, but prints a warning of several lines.
  const urls = splitHosts(options.url.replace(/([?&]sslmode=)(?:prefer|require|verify-ca)(?=&|$)/, '$1verify-full'));
  // Throws now, and not with the first statement, if a certificate that a URL names cannot be read.
  for (const url of urls) new pg.Client({ connectionString: url });
  const hosts = createHosts(urls, () => void pool.closeIdle());

  const pool = createPgPool({ max: options.pool, url: hosts.url, prepare, statementTimeoutMs, onConnectionError });
  const firstSearch = hosts.search();

  return {
    async query<Row>(statement: Statement, values: readonly unknown[]): Promise<Row[]> {
      if (urls.length > 1) await firstSearch;
      const isWrite = !/^\s*SELECT/.test(statement.text);
      const startedAt = performance.now();
      for (let repeats = 0; ; repeats += 1) {
        const deadline = performance.now() + CONNECT_TIMEOUT_MS + statementTimeoutMs + GIVE_UP_MS;
        try {
          const acquired = pool.acquire(isWrite);
          const client = acquired instanceof Promise ? await acquired : acquired;
          return (await run(client, isWrite, statement, values, deadline)) as Row[];
        } catch (error) {
          if ((UNDONE.has(codeOf(error)) || isOutdated(error)) && repeats < MAX_REPEATS) {
            // At random, so that the same transactions do not meet again.
            await sleep(Math.random() * 20);
            continue;
          }
          const recovering = recover(error);
          const isLate = performance.now() - startedAt > MOVE_WITHIN_MS;
          if (urls.length === 1 || repeats > 0 || isLate || !mayMove(error, isWrite)) throw toUnavailable(error);
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
      const client = await Promise.resolve(pool.acquire(true)).catch(fail);
      const limits = { query_timeout: TRANSACTION_TIMEOUT_MS + GIVE_UP_MS };
      const execute: Execute = (text) =>
        client.query({ text, ...limits }).catch((error: unknown) => fail(client.failure ?? error));
      let isDone = false;
      try {
        await execute(`BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL statement_timeout = ${TRANSACTION_TIMEOUT_MS}`);
        const result = await work(execute);
        await execute('COMMIT');
        isDone = true;
        return result;
      } finally {
        pool.release(client, true, !isDone);
      }
    },
    connections: pool.connections,
    close: pool.close,
  };

  function run(
    client: PgClient,
    isWrite: boolean,
    statement: Statement,
    values: readonly unknown[],
    deadline: number,
  ): Promise<unknown[]> {
    const { name, text, read } = statement;
    const waitMs = Math.min(statementTimeoutMs + GIVE_UP_MS, deadline - performance.now());
    return new Promise((resolve, reject) => {
      let isGivenUp = false;
      const prevent = callAfter(waitMs, () => {
        isGivenUp = true;
        reject(new Error('the statement took too long'));
        // Until then, its connection counts as used, so that the server never has many more sessions.
        void pool.endSession(client).then(() => pool.release(client, isWrite, true));
      });
      const callback = (error: Error | null | undefined, result: { readonly rows: unknown[] }): void => {
        if (isGivenUp) return;
        prevent();
        pool.release(client, isWrite, error instanceof Error && endsConnection(error));
        if (error) reject(error);
        else resolve(result.rows);
      };
      if (read) client.query(new KnownStatement(statement, read, values as string[], client.parsed, callback));
      else client.query({ name: prepare ? name : '', text, values: values as unknown[] }, callback);
    });
  }

  /** After a failure, drops connections that a firewall may have dropped too, and looks for the primary. */
  async function recover(error: unknown): Promise<void> {
    if (isBroken(error)) void pool.closeIdle();
    if (isUnavailable(error)) await hosts.search();
  }
}
