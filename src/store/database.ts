import { StoreError } from '../errors.js';
import type { DatabaseConnections, Metrics } from '../observability/metrics.js';

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

/** A connection that no other caller uses, in a transaction. */
export interface Transaction {
  /** Runs SQL text of one or more statements and returns the rows of the last. */
  readonly execute: (text: string) => Promise<{ rows: Record<string, unknown>[] }>;
}

export interface Database extends Queryable {
  transaction<T>(work: (transaction: Transaction) => Promise<T>): Promise<T>;
  readonly connections?: () => DatabaseConnections;
  close(): Promise<void>;
}

/** A table, column or function is missing, or a permission: https://www.postgresql.org/docs/current/errcodes-appendix.html */
const UNUSABLE: ReadonlySet<unknown> = new Set(['42P01', '42703', '42883', '42501']);
const DISK_FULL = '53100';
/** A disk counts as full for this long, or until the statement that found it full succeeds. */
const FULL_FOR_MS = 60_000;

/** Measures the statements of a database, with the wait for a connection, and remembers that its disk is full. */
export function observeDatabase(database: Database, metrics: Metrics) {
  let full: { name: string; at: number } | undefined;

  return {
    ...database,
    async query<Row>(statement: Statement, values: readonly unknown[]): Promise<Row[]> {
      const { name } = statement;
      const startedAt = performance.now();
      let failure: string | undefined;
      try {
        const rows = await database.query<Row>(statement, values);
        if (full?.name === name) full = undefined;
        return rows;
      } catch (thrown) {
        const error = toFailure(thrown, name);
        failure = error instanceof StoreError ? error.code : '_OTHER';
        throw error;
      } finally {
        metrics.observeDatabase('postgresql', name, failure, (performance.now() - startedAt) / 1_000);
      }
    },
    /** @throws StoreError `unavailable` while the disk is full */
    requireSpace(): void {
      if (full && performance.now() - full.at < FULL_FOR_MS) throw diskFull();
    },
  };

  function toFailure(error: unknown, name: string): unknown {
    const { code } = ((error as Error).cause ?? error) as NodeJS.ErrnoException;
    if (code === DISK_FULL) {
      full = { name, at: performance.now() };
      return diskFull(error);
    }
    if (!UNUSABLE.has(code)) return error;
    return new StoreError('unavailable', 'The store is not ready to serve requests.', { cause: error });
  }
}

function diskFull(cause?: unknown): StoreError {
  return new StoreError('unavailable', 'The disk of the store is full.', { cause, retryAfter: 5 });
}
