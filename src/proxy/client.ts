import { Pool } from 'undici';
import { CallCancelled } from '../pets/pet-source.js';
import type { Breaker } from './breaker.js';
import { Batch, MAX_RETRIES, PendingRequest, type RequestTemplate, type Result, type Shared } from './request.js';
import { createRequestIds } from './request-ids.js';
import { unavailable } from './wire.js';

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

interface Key {
  active: number;
  readonly waiting: Set<PendingRequest>;
}

/**
 * Creates the client of an upstream. It keeps connections alive and follows no redirects. A key uses at most half of the
 * connections, and while requests wait, the keys take turns.
 */
export function createUpstreamClient({ url, connections, timeoutMs, breaker, observe }: UpstreamClientOptions) {
  const { origin, pathname } = new URL(url);
  const basePath = pathname.replace(/\/$/, '');
  // Callers cancel at their own deadlines.
  const pool = new Pool(origin, { connections, connect: { timeout: timeoutMs }, headersTimeout: 0, bodyTimeout: 0 });
  const mostOfKey = Math.ceil(connections / 2);
  /** The keys with requests. The key whose turn is next comes first. */
  const keys = new Map<string, Key>();
  const gets: Shared['gets'] = new Map();
  let active = 0;
  const shared: Shared = {
    breaker,
    observe,
    ids: createRequestIds(),
    gets,
    retriesLeft: MAX_RETRIES,
    enqueue(request) {
      const key = find(request);
      key.waiting.add(request);
      startNext();
    },
    dequeue: (request) => void find(request).waiting.delete(request),
    release(request) {
      active -= 1;
      find(request).active -= 1;
      startNext();
    },
  };
  const ask: AskUpstream = async (paths, template) => {
    const { call } = template;
    if (call.isCancelled) throw new CallCancelled();
    if (paths.length === 0) return [];
    if (!breaker.mayTry()) return paths.map(() => unavailable());
    const batch = new Batch(paths.length, call, timeoutMs);
    paths.forEach((path, index) => join(path, template, batch, index));
    await batch.settled;
    return batch.results;
  };
  return {
    ask,
    load: () => ({
      active,
      idle: Math.max(0, pool.stats.connected - active),
      waiting: [...keys.values()].reduce((sum, { waiting }) => sum + waiting.size, 0),
    }),
    close: () => pool.destroy(),
  };

  /** Joins an equal GET of the key that has not been sent yet, or sends a request. */
  function join(path: string, template: RequestTemplate, batch: Batch, index: number): void {
    const id = `${template.call.key?.id ?? ''} ${path}`;
    const equal = template.method === 'GET' ? gets.get(id) : undefined;
    // A call that arrives after the request was sent must see newer data.
    const isJoinable = equal !== undefined && equal.sentAt === undefined;
    const request = isJoinable ? equal : new PendingRequest(id, path, template, batch.endsAt, shared);
    batch.requests.push(request);
    request.waiting.push({ batch, index });
    if (!isJoinable) request.send();
  }

  function find({ template }: PendingRequest): Key {
    const id = template.call.key?.id ?? '';
    let key = keys.get(id);
    if (!key) keys.set(id, (key = { active: 0, waiting: new Set() }));
    return key;
  }

  function startNext(): void {
    // A key that has started a request moves to the end, where the loop comes to it again.
    for (const [id, key] of keys) {
      if (active === connections) return;
      const [request] = key.waiting;
      if (!request && key.active === 0) keys.delete(id);
      if (!request || key.active >= (request.call.key?.isUnknown ? 1 : mostOfKey)) continue;
      key.waiting.delete(request);
      keys.delete(id);
      keys.set(id, key);
      if (!request.start()) continue;
      active += 1;
      key.active += 1;
      const { method, headers, body = null } = request.template;
      const sent = [...headers, 'x-request-id', request.requestId];
      pool.dispatch({ method, path: basePath + request.path, headers: sent, body }, request);
    }
  }
}
