import { StoreError } from '../errors.js';
import type { Database } from './database.js';

/** Is told of every statement when it has ended; `failure` in one of few words. Transactions are not statements: they are for migrations. */
export interface StatementObserver {
  observe(name: string, failure: string | undefined, seconds: number): void;
}

/** The same database, of whose statements somebody is told. */
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
