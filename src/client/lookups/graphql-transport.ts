import { Pool, type Dispatcher } from 'undici';

/** An HTTP answer, whatever its status. */
export interface TransportAnswer {
  readonly status: number;
  /** A header by its lower-case name. */
  readonly header: (name: string) => string | undefined;
  readonly text: string;
}

/** Sends GraphQL requests. It follows no redirect and retries nothing. */
export interface GraphqlTransport {
  /** @throws TransportFailure; the reason of the signal when that ended it */
  post(body: string, signal: AbortSignal): Promise<TransportAnswer>;
  close(): Promise<void>;
}

/** No answer came. */
export class TransportFailure extends Error {
  override readonly name = 'TransportFailure';

  constructor(
    readonly kind: 'TIMED_OUT' | 'CONNECTION_FAILED',
    message: string,
    cause: unknown,
  ) {
    super(message, { cause });
  }
}

export interface GraphqlTransportOptions {
  readonly url: URL;
  readonly key: string;
  readonly clientName: string | undefined;
  readonly concurrency: number;
  readonly timeoutMs: number;
  readonly dispatcher: Dispatcher | undefined;
}

/** A thousand animals with the longest names, escaped throughout, are less. */
const MAX_ANSWER_BYTES = 16_777_216;

export function createGraphqlTransport(options: GraphqlTransportOptions): GraphqlTransport {
  const { url, key, clientName, concurrency, timeoutMs, dispatcher } = options;
  const { origin } = url;
  const path = url.pathname + url.search;
  const pool = dispatcher ?? new Pool(origin, { connections: concurrency, maxResponseSize: MAX_ANSWER_BYTES });
  const headers = {
    Authorization: `Bearer ${key}`,
    'Content-Type': 'application/json',
    Accept: 'application/json',
    ...(clientName !== undefined && { 'apollographql-client-name': clientName }),
  };

  return {
    async post(body, signal) {
      const timeout = AbortSignal.timeout(timeoutMs);
      try {
        const answer = await pool.request({
          origin,
          path,
          method: 'POST',
          headers,
          body,
          signal: AbortSignal.any([signal, timeout]),
          headersTimeout: 0,
          bodyTimeout: 0,
        });
        const text = await answer.body.text();
        const header = (name: string): string | undefined => {
          const value = answer.headers[name];
          return Array.isArray(value) ? value.join(', ') : value;
        };
        return { status: answer.statusCode, header, text };
      } catch (error) {
        signal.throwIfAborted();
        throw timeout.aborted
          ? new TransportFailure('TIMED_OUT', `${origin} did not answer within ${timeoutMs} ms.`, error)
          : new TransportFailure('CONNECTION_FAILED', `${origin} cannot be reached: ${wordsOf(error)}`, error);
      }
    },
    close: () => (dispatcher ? Promise.resolve() : pool.destroy()),
  };
}

/** What an error says; those of several addresses tried have a code alone. */
function wordsOf(error: unknown): string {
  const { message, code } = error as { readonly message?: string; readonly code?: string };
  return message || code || 'unknown';
}
