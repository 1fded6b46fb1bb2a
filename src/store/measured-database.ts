import { StoreError } from '../errors.js';
import type { Database } from './database.js';

/** Learns of every statement that has ended. Transactions are not reported, because only migrations use them. */
export interface StatementObserver {
  /** @param failure - what went wrong, as one of a few words; undefined if nothing did */
  observe(name: string, failure: string | undefined, seconds: number): void;
}

/** Wraps a database: an observer learns how long each statement took. */
export function measureStatements(database: Database, observer: StatementObserver): Database {
  return {
    ...database,
    query<Row>(...question: Parameters<Database['query']>): Promise<Row[]> {
      const [{ name }] = question;
      const startedAt = performance.now();
      const rows = database.query<Row>(...question);
      const end = (failure: string | undefined): void =>
        observer.observe(name, failure, (performance.now() - startedAt) / 1_000);
      rows.then(
        () => end(undefined),
        (error: unknown) => end(error instanceof StoreError ? error.code : '_OTHER'),
      );
      return rows;
    },
  };
}
