import type { Log } from './log.js';

/** The content of a request's log line. No field ever contains a key. */
export interface RequestLine {
  readonly requestId: string;
  readonly method: string;
  readonly path: string;
  /** The client's address, or as much of it as the log may have. */
  readonly address?: string | undefined;
  readonly status: number;
  /** The duration in milliseconds. */
  readonly ms: number;
  readonly further: RequestFields;
}

/** The fields that only some requests have. */
export interface RequestFields {
  /** The identifier of the key. */
  keyId?: string | undefined;
  /** Requests charged. */
  cost?: number;
  /** The names of the operations. An operation without a name is listed by its type. */
  operations?: string;
  /** True if the request used something deprecated. */
  deprecated?: boolean;
  /** The client's name, if the request used something deprecated or not trusted. */
  client?: string | undefined;
  /** The names and ids of documents that are not trusted. */
  untrusted?: string;
  trace_id?: string;
}

export type RequestLog = (level: 'info' | 'debug', line: RequestLine) => void;

/** Creates the function that writes the log line of a request. */
export function createRequestLog(log: Log): RequestLog {
  // The program sets every field itself. Redaction would double the cost of a line.
  const requestLog = log.child({}, { redact: [] });
  return (level, { requestId, method, path, address, status, ms, further }) => {
    // Spreading `further` would cost more than writing the line. pino omits undefined fields.
    const { trace_id, keyId, cost, operations, deprecated, untrusted, client } = further;
    const rounded = Math.round(ms * 100) / 100;
    requestLog[level](
      {
        requestId,
        method,
        path,
        address,
        status,
        ms: rounded,
        trace_id,
        keyId,
        cost,
        operations,
        deprecated,
        untrusted,
        client,
      },
      'request',
    );
  };
}
