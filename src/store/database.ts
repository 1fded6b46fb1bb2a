import type { DatabaseConnections } from '../observability/metrics.js';
import type { SpanParent } from '../observability/tracing.js';

/** One SQL statement. The name lets a server keep its plan. */
export interface Statement {
  readonly name: string;
  readonly text: string;
}

/** Runs statements. Returns values of type int8 as text, so they are exact. */
export interface Queryable {
  /**
   * Runs one statement and returns its rows.
   * @param parent - the requests that need the statement, for its span
   * @throws StoreError `unavailable` if the database cannot be reached in time
   */
  query<Row>(statement: Statement, values: readonly unknown[], parent?: SpanParent): Promise<Row[]>;
}

/** A connection that no other caller uses, for migrations. */
export interface Session {
  /** Runs SQL text of one or more statements and returns the rows of the last. */
  execute(text: string): Promise<{ rows: Record<string, unknown>[] }>;
}

export interface Database extends Queryable {
  /** Runs `work` on one connection, without a transaction. */
  session<T>(work: (session: Session) => Promise<T>): Promise<T>;
  /** Runs `work` in one transaction on one connection. */
  transaction<T>(work: (session: Session) => Promise<T>): Promise<T>;
  readonly connections?: () => DatabaseConnections;
  /**
   * Whether the embedded database can write.
   * @throws StoreError `unavailable` while its disk is full
   */
  readonly checkSpace?: () => Promise<void>;
  close(): Promise<void>;
}
