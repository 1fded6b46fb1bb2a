import type { SpanParent } from '../observability/tracing.js';

/** One SQL statement. The name lets a server keep its plan. */
export interface Statement {
  readonly name: string;
  readonly text: string;
}

/** What can be asked of a connection. Values of type int8 arrive as text, exactly. */
export interface Queryable {
  /**
   * Runs one statement and returns its rows.
   * @param parent - the requests that the statement is run for, for its span
   * @throws StoreError `unavailable` when the database cannot be reached in time
   */
  query<Row>(statement: Statement, values: readonly unknown[], parent?: SpanParent): Promise<Row[]>;
}

/** A connection of which one caller has the sole use, for migrations. */
export interface Session {
  /** Runs SQL text of one or more statements and returns the rows of the last. */
  execute(text: string): Promise<{ rows: Record<string, unknown>[] }>;
}

/** The one contract over a PostgreSQL server and the embedded PGlite. */
export interface Database extends Queryable {
  /** Runs `work` in one transaction on one connection. */
  transaction<T>(work: (session: Session) => Promise<T>): Promise<T>;
  /** What its pool is doing just now, where it has one. */
  readonly connections?: () => Connections;
  close(): Promise<void>;
}

/** The connections of a pool. */
export interface Connections {
  readonly used: number;
  readonly idle: number;
  /** Statements that wait for one. */
  readonly waiting: number;
  /** Connections at the most. */
  readonly max: number;
}
