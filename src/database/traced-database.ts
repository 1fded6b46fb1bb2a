import type { Attributes } from '../observability/tracing.js';
import type { Database, Statement } from './database.js';

/**
 * Makes a span of each statement that is run on behalf of a recorded request: the wait for a connection included, and
 * without any value.
 * @param server - where the database is
 */
export function createTracedDatabase(database: Database, server: Attributes): Database {
  const known = new Map<string, Attributes>();
  return {
    ...database,
    async query<Row>(...question: Parameters<Database['query']>): Promise<Row[]> {
      const [statement, , parent] = question;
      if (!parent?.isRecording) return database.query<Row>(...question);
      const span = parent.startChild('client', statement.name, describe(statement));
      try {
        const rows = await database.query<Row>(...question);
        span.end({ 'db.response.returned_rows': rows.length });
        return rows;
      } catch (error) {
        span.end({}, toErrorType(error));
        throw error;
      }
    },
  };

  function describe(statement: Statement): Attributes {
    let attributes = known.get(statement.name);
    if (!attributes) {
      attributes = {
        'db.system.name': 'postgresql',
        'db.operation.name': /\b(?:SELECT|INSERT|UPDATE|DELETE)\b/.exec(statement.text)?.[0],
        'db.query.summary': statement.name,
        ...server,
      };
      known.set(statement.name, attributes);
    }
    return attributes;
  }
}

/** The code of a failure: the program's own, or the SQLSTATE. A message may quote values. */
function toErrorType(error: unknown): string {
  const { code } = error as { readonly code?: unknown };
  return typeof code === 'string' ? code : 'error';
}
