import { endSpan, startSpan, type Attributes, type SpanParent, type Tracer } from '../observability/tracing.js';
import type { Database, Statement } from './database.js';

/**
 * Wraps a database: each statement that runs for a recorded request gets a span. The span includes the wait for a
 * connection, and holds no values.
 * @param server - where the database is
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

/** Returns the code of a failure: the program's own, or the SQLSTATE. A message could quote values. */
function toErrorType(error: unknown): string {
  const { code } = error as { readonly code?: unknown };
  return typeof code === 'string' ? code : 'error';
}
