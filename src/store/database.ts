import { callAfter } from '../clock.js';
import { StoreError } from '../errors.js';
import type { Log } from '../observability/log.js';
import type { DatabaseConnections, Metrics } from '../observability/metrics.js';
import { createSlots } from './slots.js';

/** One SQL statement. The name lets a server keep its plan. */
export interface Statement {
  readonly name: string;
  readonly text: string;
  /**
   * Reads a row as a server sends it. The server is then not asked for the columns, and the values that go with the
   * statement are texts or null.
   */
  readonly read?: (columns: readonly (string | null)[]) => unknown;
}

/** Makes dates of a row's times. They are selected with `to_json`, whose text does not depend on DateStyle. */
export function withDates<Row extends object>(row: Row): Row {
  const entries = Object.entries(row).map(([name, value]: [string, unknown]) => [
    name,
    name.endsWith('At') && typeof value === 'string' ? new Date(value) : value,
  ]);
  return Object.fromEntries(entries) as Row;
}

/** Runs statements. Returns values of type int8 as text, so they are exact. */
export interface Queryable {
  /**
   * Runs one statement and returns its rows.
   * @throws StoreError `unavailable` if the database cannot be reached in time
   */
  query<Row>(statement: Statement, values: readonly unknown[]): Promise<Row[]>;
}

/** A connection that no other caller uses, in a transaction. */
export interface Connection {
  /** Runs SQL text of one or more statements and returns the rows of the last. */
  execute(text: string): Promise<{ rows: Record<string, unknown>[] }>;
}

export interface Database extends Queryable {
  transaction<T>(work: (connection: Connection) => Promise<T>): Promise<T>;
  readonly connections?: () => DatabaseConnections;
  close(): Promise<void>;
}

/** A table or column is missing, or a permission: https://www.postgresql.org/docs/current/errcodes-appendix.html */
const UNUSABLE: ReadonlySet<unknown> = new Set(['42P01', '42703', '42501']);
const DISK_FULL = '53100';
/** A disk counts as full until the statement that found it full succeeds, or for this long. */
const FULL_FOR_MS = 60_000;

/**
 * Wraps a database: reports how long each statement took, with the wait for a connection. Statements for which it lacks
 * space, or what `inspectStore` checks, fail as unavailable.
 */
export function observeDatabase(database: Database, metrics: Metrics) {
  let full: { readonly name: string; readonly at: number } | undefined;

  return {
    ...database,
    async query<Row>(...args: Parameters<Database['query']>): Promise<Row[]> {
      const [{ name }] = args;
      const startedAt = performance.now();
      let failure: string | undefined;
      try {
        const rows = await database.query<Row>(...args);
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

/** A write that takes longer than this shows that writes are stalled. */
const STALLED_MS = 1_000;
/** How long a write waits while others run, in milliseconds. */
const WAIT_MS = 1_500;

/**
 * Wraps the database of the animals so that stalled writes do not keep reads from it. A commit may hang, for example if
 * it waits for a standby that is lost. From then on, writes are refused at once, except for one at a time that finds
 * out whether they work again.
 * @param pool - the connections of the database, of which a fifth is left to reads
 */
export function guardWrites(database: Database, pool: number, log: Log): Database {
  const slots = createSlots(Math.max(1, pool - Math.ceil(pool / 5)));
  let isStalled = false;

  return {
    ...database,
    query: (statement, values) =>
      statement.text.startsWith('SELECT')
        ? database.query(statement, values)
        : write(() => database.query(statement, values)),
  };

  async function write<T>(run: () => Promise<T>): Promise<T> {
    requireWrites(0);
    await slots.take(WAIT_MS).catch((error: unknown) => {
      requireWrites(0);
      throw error;
    });
    const prevent = callAfter(STALLED_MS, () => setStalled(true));
    try {
      requireWrites(1);
      const result = await run();
      setStalled(false);
      return result;
    } finally {
      prevent();
      slots.free();
    }
  }

  /** @throws StoreError `unavailable` if writes are stalled, and more than `others` run */
  function requireWrites(others: number): void {
    if (!isStalled || slots.used() <= others) return;
    throw new StoreError('unavailable', 'The store cannot write at the moment. Try again shortly.', { retryAfter: 1 });
  }

  function setStalled(value: boolean): void {
    if (value === isStalled) return;
    isStalled = value;
    log.warn(value ? 'the database does not complete writes: they are refused' : 'the database writes again');
  }
}
