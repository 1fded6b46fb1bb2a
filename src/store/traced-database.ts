import { endSpan, startSpan, type Attributes, type SpanParent, type Tracer } from '../observability/tracing.js';
import type { Database, Statement } from './database.js';

/**
 * Wraps a database and creates a span for each statement of a recorded request. The span includes the wait for a
 * connection and contains no values.
 * @param server - attributes with the address of the database
 */
export function createTracedDatabase(database: Database, tracer: Tracer, server: Attributes): Database {
  return {
    ...database,
    query(statement, values, parent) {
      return parent?.span?.isRecording()
        ? traceQuery(statement, values, parent)
        : database.query(statement, values, parent);
    },
  };

  async function traceQuery<Row>(statement: Statement, values: readonly unknown[], parent: SpanParent): Promise<Row[]> {
    const span = startSpan(tracer, 'client', statement.name, parent, {
      'db.system.name': 'postgresql',
      'db.operation.name': /\b(?:SELECT|INSERT|UPDATE|DELETE)\b/.exec(statement.text)?.[0],
      'db.query.summary': statement.name,
      ...server,
    });
    try {
      const rows = await database.query<Row>(statement, values, parent);
      endSpan(span, { 'db.response.returned_rows': rows.length });
      return rows;
    } catch (error) {
      endSpan(span, {}, toErrorType(error));
      throw error;
    }
  }
}

/** Returns the program's own error code or the SQLSTATE, never the message, because it may quote values. */
function toErrorType(error: unknown): string {
  const { code } = error as { readonly code?: unknown };
  return typeof code === 'string' ? code : 'error';
}
