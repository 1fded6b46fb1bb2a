import { StoreError } from '../errors.js';
import type { Metrics } from '../observability/metrics.js';
import { endSpan, startSpan, type Attributes, type Tracer } from '../observability/tracing.js';
import type { Database } from './database.js';

/**
 * Wraps a database. It reports how long each statement took, and creates a span for each statement of a recorded
 * request. Both include the wait for a connection. The span contains no values. Transactions are left out, because only
 * migrations use them.
 * @param server - span attributes with the address of the database
 */
export function observeDatabase(database: Database, metrics: Metrics, tracer: Tracer, server: Attributes): Database {
  return {
    ...database,
    query<Row>(...args: Parameters<Database['query']>): Promise<Row[]> {
      const [{ name, text }, , parent] = args;
      const startedAt = performance.now();
      const span = parent?.span?.isRecording()
        ? startSpan(tracer, 'client', name, parent, {
            'db.system.name': 'postgresql',
            'db.operation.name': /\b(?:SELECT|INSERT|UPDATE|DELETE)\b/.exec(text)?.[0],
            'db.query.summary': name,
            ...server,
          })
        : undefined;
      const rows = database.query<Row>(...args);
      const end = (failure?: string): void =>
        metrics.observeDatabase('postgresql', name, failure, (performance.now() - startedAt) / 1_000);
      rows.then(
        ({ length }) => {
          end();
          if (span) endSpan(span, { 'db.response.returned_rows': length });
        },
        (error: unknown) => {
          end(error instanceof StoreError ? error.code : '_OTHER');
          if (span) endSpan(span, {}, toErrorType(error));
        },
      );
      return rows;
    },
  };
}

/** Returns the program's own error code or the SQLSTATE, never the message, because it may quote values. */
function toErrorType(error: unknown): string {
  const { code } = error as { readonly code?: unknown };
  return typeof code === 'string' ? code : 'error';
}
