import type { Log } from './log.js';

/** What the log says about every request. No field ever holds a key. */
export interface RequestLine {
  readonly requestId: string;
  readonly method: string;
  readonly path: string;
  readonly status: number;
  /** The duration in milliseconds. */
  readonly ms: number;
  /** The fields that only some requests have. */
  readonly further: RequestFields;
}

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
  /** The trace that the request is part of. */
  trace_id?: string;
}

/** Writes the log line of one request. */
export type RequestLog = (level: 'info' | 'debug', line: RequestLine) => void;

/** Creates the function that writes one log line for each request. */
export function createRequestLog(log: Log): RequestLog {
  // The program sets every field itself. Looking for keys in them would double the cost of a line.
  const requestLog = log.child({}, { redact: [] });
  return (level, { requestId, method, path, status, ms, further }) => {
    // An object literal, because spreading the fields costs more than writing the line. pino leaves out what is undefined.
    const line = {
      requestId,
      method,
      path,
      status,
      ms: Math.round(ms * 100) / 100,
      trace_id: further.trace_id,
      keyId: further.keyId,
      cost: further.cost,
      operations: further.operations,
      deprecated: further.deprecated,
      client: further.client,
    };
    requestLog[level](line, 'request');
  };
}
