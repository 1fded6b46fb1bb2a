import type { Log } from './log.js';

/** What the log says about every request. No field ever holds a key. */
export interface RequestLine {
  readonly requestId: string;
  readonly method: string;
  readonly path: string;
  readonly status: number;
  /** The duration in milliseconds. */
  readonly ms: number;
  readonly further: RequestFields;
}

/** What the log says about some requests. */
export interface RequestFields {
  /** The identifier of the key. */
  keyId?: string | undefined;
  /** Requests charged. */
  cost?: number;
  /** The names of the operations. An operation without a name is listed by its type. */
  operations?: string;
  /** True when the request used something deprecated; `client` then is the client's name. */
  deprecated?: boolean;
  client?: string;
  trace_id?: string;
}

/** Writes the log line of one request. */
export type RequestLog = (level: 'info' | 'debug', line: RequestLine) => void;

/** Creates the function that writes one log line for each request. */
export function createRequestLog(log: Log): RequestLog {
  // The program sets every field itself. Looking for keys in them would double the cost of a line.
  const requestLog = log.child({}, { redact: [] });
  return (level, { requestId, method, path, status, ms, further }) => {
    // Spreading `further` would cost more than writing the line. pino leaves out what is undefined.
    const { trace_id, keyId, cost, operations, deprecated, client } = further;
    const rounded = Math.round(ms * 100) / 100;
    requestLog[level](
      { requestId, method, path, status, ms: rounded, trace_id, keyId, cost, operations, deprecated, client },
      'request',
    );
  };
}
