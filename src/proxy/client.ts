import { randomBytes } from 'node:crypto';
import { Pool } from 'undici';
import type { ProxyConfig } from '../config.js';
import { CallCancelled } from '../pets/pet-source.js';
import { Batch, type Result } from './batch.js';
import { MAX_RETRIES, UpstreamRequest, type Lane, type RequestTemplate, type Upstream } from './request.js';
import { MAX_BODY_BYTES, unavailable } from './wire.js';

export type UpstreamClient = ReturnType<typeof createUpstreamClient>;

type UpstreamClientOptions = Pick<ProxyConfig, 'url' | 'connections' | 'timeoutMs'> &
  Pick<Upstream, 'breaker' | 'observe'>;

/**
 * Creates the client of an upstream, the only place that decides whether a request may be sent now. A key uses at most
 * half of the connections, and a single one until the upstream has answered for it. While requests wait, keys take turns.
 */
export function createUpstreamClient({ url, connections, timeoutMs, breaker, observe }: UpstreamClientOptions) {
  const { origin, pathname } = new URL(url);
  const pool = new Pool(origin, {
    connections,
    // So the breaker learns of a failed connection before its batches reach their time limit.
    connect: { timeout: timeoutMs / 2 },
    headersTimeout: 0,
    bodyTimeout: 0,
    maxResponseSize: MAX_BODY_BYTES,
  });
  const upstream: Upstream = {
    pool,
    basePath: pathname.replace(/\/$/, ''),
    breaker,
    observe,
    tag: `.${randomBytes(6).toString('base64url')}.`,
    sent: 0,
    returnsIds: false,
    retriesLeft: MAX_RETRIES,
    enqueue,
    dequeue,
    release,
  };
  /** The one whose turn is next comes first. */
  const lanes = new Map<string, Lane>();
  const mostOfKey = Math.max(1, Math.floor(connections / 2));
  let active = 0;
  let isScheduled = false;

  return {
    /** Requests several paths of the upstream at once. Returns one result for each path, in order. */
    ask: (paths: readonly string[], template: RequestTemplate): Promise<readonly Result[]> => {
      const { call, method } = template;
      if (call.isCancelled) return Promise.reject(new CallCancelled());
      if (paths.length === 0) return Promise.resolve([]);
      const batch = new Batch(call, timeoutMs);
      const { waiting } = findLane(call.key?.id);
      for (const path of paths) {
        const equal = method === 'GET' ? waiting.get(path)?.request : undefined;
        const request = equal ?? new UpstreamRequest(path, template, upstream);
        request.join(batch);
        if (!equal) enqueue(request);
      }
      return batch.results;
    },
    load: () => ({ sent: active, waiting: [...lanes.values()].reduce((sum, { waiting }) => sum + waiting.size, 0) }),
    close: () => pool.destroy(),
  };

  function enqueue(request: UpstreamRequest): void {
    request.queuedAt = performance.now();
    request.lane = findLane(request.key?.id);
    request.lane.waiting.set(request.place, { request });
    schedule();
  }

  function findLane(keyId = ''): Lane {
    let lane = lanes.get(keyId);
    if (!lane) lanes.set(keyId, (lane = { keyId, active: 0, waiting: new Map() }));
    return lane;
  }

  function dequeue({ lane, place }: UpstreamRequest): void {
    // While a request pauses before a retry, it is in no lane.
    if (lane?.waiting.delete(place)) forgetIdle(lane);
  }

  function release({ lane }: UpstreamRequest): void {
    if (lane) lane.active -= 1;
    active -= 1;
    forgetIdle(lane);
    schedule();
  }

  /** By then, all that has arrived was read, so that equal GETs share a request. */
  function schedule(): void {
    if (!isScheduled) setImmediate(sendWaiting);
    isScheduled = true;
  }

  function sendWaiting(): void {
    isScheduled = false;
    for (const lane of lanes.values()) {
      const entry = lane.waiting.values().next().value;
      if (!entry?.request) continue;
      const { request } = entry;
      const { key } = request;
      const isFull = active >= connections || lane.active >= (key?.isUnknown ? 1 : mostOfKey);
      // Nobody waits for a connection to an upstream that does not answer.
      if (isFull && !breaker.isOpen) continue;
      lane.waiting.delete(request.place);
      entry.request = undefined;
      const refusal = request.retries === 0 ? key?.start() : key?.findRefusal();
      if (refusal || isFull || !breaker.mayTry()) {
        request.finish(refusal ?? unavailable());
      } else {
        active += 1;
        lane.active += 1;
        request.send();
      }
      forgetIdle(lane);
      // It moves to the end of the Map, where this loop meets it again: each lane sends one request a round.
      if ((lane.waiting.size > 0 || lanes.size > 1) && lanes.delete(lane.keyId)) lanes.set(lane.keyId, lane);
    }
  }

  function forgetIdle(lane: Lane | undefined): void {
    if (lane?.active === 0 && lane.waiting.size === 0) lanes.delete(lane.keyId);
  }
}
