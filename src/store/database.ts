import { StoreError } from '../errors.js';
import type { Log } from '../observability/log.js';
import type { DatabaseConnections, Metrics } from '../observability/metrics.js';

/** One SQL statement. The name lets a server keep its plan. */
export interface Statement {
  readonly name: string;
  readonly text: string;
}

/** A time as `toMillis` selects it: milliseconds since the epoch, as text. */
export type Millis = string;

/** SQL for a time whose text does not depend on the settings of the session, such as DateStyle. */
export function toMillis(column: string): string {
  return `floor(extract(epoch FROM ${column}) * 1000)::bigint`;
}

/** Converts a selected time. @throws Error if it is no date: a time that cannot be read is never an absent one */
export function fromMillis(millis: Millis): Date;
export function fromMillis(millis: Millis | null): Date | null;
export function fromMillis(millis: Millis | null): Date | null {
  if (millis === null) return null;
  const date = new Date(Number(millis));
  if (Number.isNaN(date.getTime())) throw new Error('the database has a time that is no date');
  return date;
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
  /** Runs `work` in one transaction on one connection. */
  transaction<T>(work: (connection: Connection) => Promise<T>): Promise<T>;
  readonly connections?: () => DatabaseConnections;
  /**
   * Whether the embedded database can write.
   * @throws StoreError `unavailable` while its disk is full
   */
  readonly checkSpace?: () => Promise<void>;
  close(): Promise<void>;
}

/** A table or column is missing, or a permission: https://www.postgresql.org/docs/current/errcodes-appendix.html */
const UNUSABLE: ReadonlySet<unknown> = new Set(['42P01', '42703', '42501']);

/**
 * Wraps the database of a server. It reports how long each statement took, with the wait for a connection. Transactions
 * are left out, because only migrations use them. Statements for which the database lacks what `checkStore` checks fail as
 * unavailable.
 */
export function observeDatabase(database: Database, metrics: Metrics): Database {
  return {
    ...database,
    async query<Row>(...args: Parameters<Database['query']>): Promise<Row[]> {
      const [{ name }] = args;
      const startedAt = performance.now();
      let failure: string | undefined;
      try {
        return await database.query<Row>(...args);
      } catch (thrown) {
        const error = toFailure(thrown);
        failure = error instanceof StoreError ? error.code : '_OTHER';
        throw error;
      } finally {
        metrics.observeDatabase('postgresql', name, failure, (performance.now() - startedAt) / 1_000);
      }
    },
  };
}

function toFailure(error: unknown): unknown {
  if (!UNUSABLE.has((error as { readonly code?: unknown }).code)) return error;
  return new StoreError('unavailable', 'The store is not ready to serve requests.', { cause: error });
}

/** A write that takes longer than this shows that writes are stalled. */
const STALLED_MS = 1_000;

/**
 * Wraps the database of the animals so that stalled writes do not keep reads from it. A commit may hang, for example if
 * it waits for a standby that is lost. From then on, writes are refused at once, except for one at a time that finds
 * out whether they work again.
 * @param pool - the connections of the database, of which a fifth is left to reads
 */
export function guardWrites(database: Database, pool: number, log: Log): Database {
  const max = Math.max(1, pool - Math.ceil(pool / 5));
  let running = 0;
  let isStalled = false;
  let waiting: { readonly start: () => void; readonly refuse: (error: StoreError) => void }[] = [];

  return {
    ...database,
    query: (statement, values) =>
      statement.text.startsWith('SELECT')
        ? database.query(statement, values)
        : write(() => database.query(statement, values)),
  };

  async function write<T>(run: () => Promise<T>): Promise<T> {
    if (isStalled && running > 0) throw stalled();
    if (running >= max) await new Promise<void>((start, refuse) => waiting.push({ start, refuse }));
    running += 1;
    const timer = setTimeout(stall, STALLED_MS);
    try {
      const result = await run();
      if (isStalled) log.warn('the database writes again');
      isStalled = false;
      return result;
    } finally {
      clearTimeout(timer);
      running -= 1;
      waiting.shift()?.start();
    }
  }

  function stall(): void {
    if (!isStalled) log.warn('the database does not complete writes: they are refused');
    isStalled = true;
    for (const { refuse } of waiting) refuse(stalled());
    waiting = [];
  }
}

function stalled(): StoreError {
  return new StoreError('unavailable', 'The store cannot write at the moment. Try again shortly.', { retryAfter: 1 });
}
