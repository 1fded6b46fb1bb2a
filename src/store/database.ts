import { StoreError } from '../errors.js';
import type { DatabaseConnections, Metrics } from '../observability/metrics.js';
import { codeOf, DISK_FULL, UNUSABLE } from './pg-errors.js';

/** One SQL statement. The name lets a server keep its plan. */
export interface Statement {
  readonly name: string;
  readonly text: string;
  /** Reads the columns of a row, as texts or null. The server is then not asked for types: the values are texts too. */
  readonly read?: (columns: readonly (string | null)[]) => unknown;
}

/** Converts a row's times. They are selected with `to_json`, whose text does not depend on DateStyle. */
export function withDates<Row extends object>(row: Row): Row {
  const entries = Object.entries(row).map(([name, value]: [string, unknown]) => [
    name,
    /at$/i.test(name) && typeof value === 'string' ? new Date(value) : value,
  ]);
  return Object.fromEntries(entries) as Row;
}

/** Runs statements. Returns values of type int8 as text, so they are exact. */
export interface Queryable {
  /** @throws StoreError `unavailable` if the database cannot be reached in time */
  query<Row>(statement: Statement, values: readonly unknown[]): Promise<Row[]>;
}

/** Runs SQL text of one or more statements and returns the rows of the last. */
export type Execute = (text: string) => Promise<{ rows: Record<string, unknown>[] }>;

export interface Database extends Queryable {
  /** Calls `work` in a transaction, on a connection that no other caller uses. */
  transaction<T>(work: (execute: Execute) => Promise<T>): Promise<T>;
  readonly connections?: () => DatabaseConnections;
  close(): Promise<void>;
}

/** Writes a temporary file of 150 kB. An addition would prove less: its table may have room left. */
const CHECK_SPACE = {
  name: 'check-space',
  text: `SELECT count(*)
         FROM concat(set_config('work_mem', '64kB', true), set_config('temp_tablespaces', '', true)) AS memory,
              generate_series(length(memory), 10000)`,
};

/** Measures the statements of a database, with the wait for a connection, and remembers that its disk is full. */
export function observeDatabase(database: Database, metrics: Metrics) {
  let isFull = false;

  return {
    ...database,
    query,
    /** @throws StoreError `unavailable` if a statement has found the disk full, and it still is */
    async requireSpace(): Promise<void> {
      if (isFull) await query(CHECK_SPACE, []);
      isFull = false;
    },
  };

  async function query<Row>(statement: Statement, values: readonly unknown[]): Promise<Row[]> {
    const startedAt = performance.now();
    let failure: string | undefined;
    try {
      return await database.query<Row>(statement, values);
    } catch (thrown) {
      const error = toFailure(thrown);
      failure = error instanceof StoreError ? error.code : '_OTHER';
      throw error;
    } finally {
      metrics.observeDatabase('postgresql', statement.name, failure, (performance.now() - startedAt) / 1_000);
    }
  }

  function toFailure(error: unknown): unknown {
    if (codeOf(error) === DISK_FULL) {
      isFull = true;
      return new StoreError('unavailable', 'The disk of the store is full.', { cause: error, retryAfter: 5 });
    }
    // A pool has already replaced errors of resources and of the system. The embedded store has no pool.
    const code = codeOf(error) ?? '';
    if (error instanceof StoreError || !(UNUSABLE.has(code) || /^5[38]/.test(code))) return error;
    return new StoreError('unavailable', 'The store is not ready to serve requests.', { cause: error });
  }
}
