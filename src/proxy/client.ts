import { Pool } from 'undici';
import { CallCancelled } from '../pets/pet-source.js';
import type { Breaker } from './breaker.js';
import { Exchange } from './exchange.js';
import { createQueue } from './queue.js';
import { Batch, MAX_RETRIES, PendingRequest, type RequestTemplate, type Result, type Shared } from './request.js';
import { createRequestIds } from './request-ids.js';

/** Requests several paths of the upstream at once. Returns one result for each path, in order. */
export type AskUpstream = (paths: readonly string[], template: RequestTemplate) => Promise<readonly Result[]>;

export interface UpstreamClientOptions {
  /** The base address, such as `https://host/v1`. */
  readonly url: string;
  /** The most connections that are open at the same time. */
  readonly connections: number;
  /** The time for all requests of one call, from its start. */
  readonly timeoutMs: number;
  readonly breaker: Breaker;
  readonly observe?: Shared['observe'];
}

/** Creates the client of an upstream. It keeps connections alive and follows no redirects. */
export function createUpstreamClient({ url, connections, timeoutMs, breaker, observe }: UpstreamClientOptions) {
  const { origin, pathname } = new URL(url);
  const basePath = pathname.replace(/\/$/, '');
  // Callers cancel at their own deadlines.
  const pool = new Pool(origin, { connections, connect: { timeout: timeoutMs }, headersTimeout: 0, bodyTimeout: 0 });
  const ids = createRequestIds();
  const queue = createQueue(connections, breaker);
  const shared: Shared = {
    breaker,
    observe,
    queue,
    retriesLeft: MAX_RETRIES,
    dispatch(request) {
      const { method, headers, body = null } = request.template;
      const exchange = new Exchange(ids.create(request.call.requestId), ids, request);
      const sent = [...headers, 'x-request-id', exchange.requestId];
      pool.dispatch({ method, path: basePath + request.path, headers: sent, body }, exchange);
      return exchange;
    },
  };
  const ask: AskUpstream = (paths, template) => {
    const { call, method } = template;
    if (call.isCancelled) return Promise.reject(new CallCancelled());
    if (paths.length === 0) return Promise.resolve([]);
    const batch = new Batch(paths.length, call, timeoutMs);
    for (const [index, path] of paths.entries()) {
      const waiter = { batch, index };
      const equal = method === 'GET' ? queue.find(call.key?.id ?? '', path) : undefined;
      const request = equal ?? new PendingRequest(path, template, shared, waiter);
      batch.requests.push(request);
      if (equal) equal.join(waiter);
      else request.enqueue();
    }
    return batch.settled;
  };
  return {
    ask,
    load: queue.load,
    close: () => pool.destroy(),
  };
}
