import { Pool } from 'undici';
import { Attempt, type ObserveRequest, type UpstreamRequest } from './attempt.js';
import { FairQueue } from './fair-queue.js';

/** Sends requests to the upstream. */
export interface UpstreamClient {
  send(request: UpstreamRequest): Attempt;
  load(): UpstreamLoad;
  close(): Promise<void>;
}

/** What the client is doing now. */
export interface UpstreamLoad {
  /** Connections with a request on them. */
  readonly active: number;
  readonly idle: number;
  /** Requests that wait for a connection. */
  readonly waiting: number;
}

export interface UpstreamClientOptions {
  /** The base address, such as `https://host/v1`. */
  readonly url: string;
  /** The most connections that are open at the same time. */
  readonly connections: number;
  readonly connectTimeoutMs: number;
  readonly observe?: ObserveRequest | undefined;
}

/**
 * Creates a client with a pool of kept-alive connections. It follows no redirects, keeps no cookies and retries nothing.
 * Requests that find no free connection wait in one queue, in which the keys take turns.
 */
export function createUpstreamClient(options: UpstreamClientOptions): UpstreamClient {
  const { url, connections, connectTimeoutMs, observe } = options;
  const { origin, pathname } = new URL(url);
  const base = pathname.replace(/\/+$/, '');
  const pool = new Pool(origin, {
    connections,
    pipelining: 1,
    connect: { timeout: connectTimeoutMs },
    // No timeouts here: callers cancel at their own deadlines.
    headersTimeout: 0,
    bodyTimeout: 0,
  });
  // The Pool's own queue would be shared by all keys, and would prepare each request before it waits.
  const waiting = new FairQueue<Attempt>();
  let active = 0;

  return {
    send(request) {
      const attempt = new Attempt(request, observe, sendNext);
      if (active < connections) dispatch(attempt);
      else waiting.push(request.keyId, attempt);
      return attempt;
    },
    load: () => ({
      active,
      idle: Math.max(0, pool.stats.connected - active),
      waiting: [...waiting].filter(({ isSettled }) => !isSettled).length,
    }),
    close: () => pool.destroy(),
  };

  function dispatch(attempt: Attempt): void {
    active += 1;
    const { method, path, headers, body } = attempt.request;
    pool.dispatch({ method, path: base + path, headers, body: body ?? null }, attempt);
  }

  /** Sends the next request that is not cancelled. */
  function sendNext(): void {
    active -= 1;
    let attempt = waiting.shift();
    while (attempt?.isSettled) attempt = waiting.shift();
    if (attempt) dispatch(attempt);
  }
}
