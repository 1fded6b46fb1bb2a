import { StoreError } from '../errors.js';
import type { Metrics } from '../observability/metrics.js';
import { endSpan, startSpan, type Attributes, type Tracer } from '../observability/tracing.js';
import type { Database } from './database.js';

/** A table or column is missing, or a permission: https://www.postgresql.org/docs/current/errcodes-appendix.html */
const UNUSABLE: ReadonlySet<unknown> = new Set(['42P01', '42703', '42501']);

/**
 * Wraps the database of a server. It reports how long each statement took, and creates a span for each statement of a
 * recorded request. Both include the wait for a connection. The span contains no values. Transactions are left out,
 * because only migrations use them. Statements for which the database lacks what `checkStore` checks fail as
 * unavailable.
 * @param server - span attributes with the address of the database
 */
export function observeDatabase(database: Database, metrics: Metrics, tracer: Tracer, server: Attributes): Database {
  return {
    ...database,
    async query<Row>(...args: Parameters<Database['query']>): Promise<Row[]> {
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
      let failure: string | undefined;
      try {
        const rows = await database.query<Row>(...args);
        if (span) endSpan(span, { 'db.response.returned_rows': rows.length });
        return rows;
      } catch (thrown) {
        const error = toFailure(thrown);
        failure = error instanceof StoreError ? error.code : '_OTHER';
        // The code or the SQLSTATE, never the message, because it may quote values.
        const { code = 'error' } = error as { readonly code?: string };
        if (span) endSpan(span, {}, code);
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
