import type { StoreError } from '../errors.js';
import type { Breaker } from './breaker.js';
import type { PendingRequest } from './request.js';
import { unavailable } from './wire.js';

/** The requests of one key. */
interface Lane {
  /** How many connections it uses. A request that is repeated may use two for a moment. */
  active: number;
  /** Those that wait, in order, by their `queueKey`. */
  readonly waiting: Map<string | PendingRequest, PendingRequest>;
  /** Those on their way, some of which may still wait for a connection to open. */
  readonly started: Set<PendingRequest>;
}

/**
 * Creates the queue of an upstream, the only place that decides whether a request may be sent now. A key uses at most
 * half of the connections, and a single one until the upstream has answered for it. While requests wait, keys take turns.
 */
export function createQueue(connections: number, breaker: Breaker) {
  const mostOfKey = Math.ceil(connections / 2);
  /** By the id of the key. The lane whose turn is next comes first. */
  const lanes = new Map<string, Lane>();
  let active = 0;
  return {
    /** Finds an equal GET that was not sent yet. */
    find(keyId: string, path: string): PendingRequest | undefined {
      const lane = lanes.get(keyId);
      if (!lane) return undefined;
      return lane.waiting.get(path) ?? [...lane.started].find((one) => one.queueKey === path && one.isConnecting);
    },
    add(request: PendingRequest): void {
      laneOf(request).waiting.set(request.queueKey, request);
      sendNext();
    },
    remove: (request: PendingRequest): void => void laneOf(request).waiting.delete(request.queueKey),
    /** The connection of a request can be used again. */
    release(request: PendingRequest): void {
      active -= 1;
      const lane = laneOf(request);
      lane.active -= 1;
      lane.started.delete(request);
      sendNext();
    },
    load: () => ({ active, waiting: [...lanes.values()].reduce((sum, { waiting }) => sum + waiting.size, 0) }),
  };

  function laneOf({ key }: PendingRequest): Lane {
    const id = key?.id ?? '';
    let lane = lanes.get(id);
    if (!lane) lanes.set(id, (lane = { active: 0, waiting: new Map(), started: new Set() }));
    return lane;
  }

  function sendNext(): void {
    // A lane that has had its turn moves to the end, where the loop comes to it again.
    for (const [id, lane] of lanes) {
      if (active === connections) break;
      const [request] = lane.waiting.values();
      if (!request && lane.active === 0) lanes.delete(id);
      if (!request || lane.active >= (request.key?.isUnknown ? 1 : mostOfKey)) continue;
      lane.waiting.delete(request.queueKey);
      lanes.delete(id);
      lanes.set(id, lane);
      const refusal = findRefusal(request) ?? (breaker.mayTry() ? undefined : unavailable());
      if (refusal) {
        request.finish(refusal);
      } else {
        active += 1;
        lane.active += 1;
        lane.started.add(request);
        request.send();
      }
    }
    if (breaker.isOpen) refuseWaiting();
  }

  /** Nobody waits for a connection to an upstream that does not answer, which may take until the time limit. */
  function refuseWaiting(): void {
    for (const [id, lane] of lanes) {
      const requests = [...lane.waiting.values()];
      lane.waiting.clear();
      if (lane.active === 0) lanes.delete(id);
      for (const request of requests) request.finish(findRefusal(request) ?? unavailable());
    }
  }

  function findRefusal({ key, retries }: PendingRequest): StoreError | undefined {
    return retries === 0 ? key?.start() : key?.findRefusal();
  }
}
