import { randomBytes } from 'node:crypto';
import { Pool } from 'undici';
import type { ProxyConfig } from '../config.js';
import { CallCancelled } from '../pets/pet-source.js';
import type { Breaker } from './breaker.js';
import { createQueue } from './queue.js';
import { Batch, MAX_RETRIES, UpstreamRequest, type RequestTemplate, type Result, type Shared } from './request.js';
import { MAX_BODY_BYTES } from './wire.js';

/** Requests several paths of the upstream at once. Returns one result for each path, in order. */
export type AskUpstream = (paths: readonly string[], template: RequestTemplate) => Promise<readonly Result[]>;

export interface UpstreamClientOptions extends Pick<ProxyConfig, 'url' | 'connections' | 'timeoutMs'> {
  readonly breaker: Breaker;
  readonly observe?: Shared['observe'];
}

/** Stores accept ids of up to 128 characters, and the part that is added here takes about 20. */
const MAX_CLIENT_ID = 100;

/** Creates the client of an upstream. It keeps connections alive and follows no redirects. */
export function createUpstreamClient({ url, connections, timeoutMs, breaker, observe }: UpstreamClientOptions) {
  const { origin, pathname } = new URL(url);
  const basePath = pathname.replace(/\/$/, '');
  const pool = new Pool(origin, {
    connections,
    connect: { timeout: timeoutMs },
    // Callers cancel at their own deadlines.
    headersTimeout: 0,
    bodyTimeout: 0,
    maxResponseSize: MAX_BODY_BYTES,
  });
  // Clients may use a request id twice.
  const tag = `.${randomBytes(6).toString('base64url')}.`;
  let sent = 0;
  let returnsIds = false;
  const queue = createQueue(connections, breaker);
  const shared: Shared = {
    breaker,
    observe,
    queue,
    retriesLeft: MAX_RETRIES,
    dispatch(request) {
      const { method, headers, body = null, call } = request.template;
      request.id = call.requestId.slice(0, MAX_CLIENT_ID) + tag + (sent += 1).toString(36);
      const all = [...headers, 'x-request-id', request.id];
      pool.dispatch({ method, path: basePath + request.path, headers: all, body }, request);
    },
    matches({ id, key }, returned) {
      // A check has no key. Its answer tells nothing about anybody.
      if (!key) return true;
      if (returned === undefined) return !returnsIds;
      const isSame = returned === id || returned.split(', ').includes(id);
      returnsIds ||= isSame;
      // An upstream may have ids of its own. It then never returns the id of another request.
      return isSame || (!returnsIds && !returned.includes(tag));
    },
  };
  const ask: AskUpstream = (paths, template) => {
    const { call, method } = template;
    if (call.isCancelled) return Promise.reject(new CallCancelled());
    if (paths.length === 0) return Promise.resolve([]);
    const batch = new Batch(paths.length, call, timeoutMs);
    for (const path of paths) {
      const equal = method === 'GET' ? queue.find(call.key?.id ?? '', path) : undefined;
      const request = equal ?? new UpstreamRequest(path, template, shared, batch);
      batch.requests.push(request);
      if (equal) equal.join(batch);
      else request.enqueue();
    }
    return batch.results;
  };
  return {
    ask,
    load: queue.load,
    close: () => pool.destroy(),
  };
}
