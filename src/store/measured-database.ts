import { StoreError } from '../errors.js';
import type { Database } from './database.js';

/**
 * Receives the duration of a statement. Transactions are not reported, because only migrations use them.
 * @param failure - an error code from a small set; undefined if the statement succeeded
 */
export type ObserveStatement = (name: string, failure: string | undefined, seconds: number) => void;

/** Wraps a database and reports how long each statement took. */
export function measureStatements(database: Database, observe: ObserveStatement): Database {
  return {
    ...database,
    query<Row>(...args: Parameters<Database['query']>): Promise<Row[]> {
      const [{ name }] = args;
      const startedAt = performance.now();
      const rows = database.query<Row>(...args);
      const end = (failure: string | undefined): void =>
        observe(name, failure, (performance.now() - startedAt) / 1_000);
      rows.then(
        () => end(undefined),
        (error: unknown) => end(error instanceof StoreError ? error.code : '_OTHER'),
      );
      return rows;
    },
  };
}
