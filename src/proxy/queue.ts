import type { StoreError } from '../errors.js';
import type { Breaker } from './breaker.js';
import type { UpstreamRequest } from './request.js';
import { unavailable } from './wire.js';

/** The requests of one key. */
interface Lane {
  readonly keyId: string;
  /** How many connections it uses. */
  active: number;
  /** Those that wait for their turn, in order, by their `queueKey`. */
  readonly waiting: Map<string | UpstreamRequest, UpstreamRequest>;
  /** Those that undici has, but has not sent yet. */
  readonly starting: Map<string | UpstreamRequest, UpstreamRequest>;
}

/**
 * Creates the queue of an upstream, the only place that decides whether a request may be sent now. A key uses at most
 * half of the connections, and a single one until the upstream has answered for it. While requests wait, keys take turns.
 */
export function createQueue(connections: number, breaker: Breaker) {
  const mostOfKey = Math.ceil(connections / 2);
  const lanes = new Map<string, Lane>();
  /** The lanes in which requests wait. The one whose turn is next comes first. */
  let turns: Lane[] = [];
  let active = 0;
  return {
    /** Finds an equal GET that was not sent yet. */
    find(keyId: string, path: string): UpstreamRequest | undefined {
      const lane = lanes.get(keyId);
      const request = lane?.waiting.get(path) ?? lane?.starting.get(path);
      return request?.result ? undefined : request;
    },
    add(request: UpstreamRequest): void {
      const lane = laneOf(request);
      if (lane.waiting.size === 0) turns.push(lane);
      lane.waiting.set(request.queueKey, request);
      sendNext();
    },
    remove(request: UpstreamRequest): void {
      const lane = laneOf(request);
      lane.waiting.delete(request.queueKey);
      if (lane.waiting.size === 0) turns = turns.filter((one) => one !== lane);
      forget(lane);
    },
    sent: (request: UpstreamRequest): void => void laneOf(request).starting.delete(request.queueKey),
    /** The connection of a request can be used again. */
    release(request: UpstreamRequest): void {
      const lane = laneOf(request);
      lane.starting.delete(request.queueKey);
      lane.active -= 1;
      active -= 1;
      forget(lane);
      sendNext();
    },
    load: () => ({ active, waiting: turns.reduce((sum, { waiting }) => sum + waiting.size, 0) }),
  };

  function laneOf({ key }: UpstreamRequest): Lane {
    const keyId = key?.id ?? '';
    let lane = lanes.get(keyId);
    if (!lane) lanes.set(keyId, (lane = { keyId, active: 0, waiting: new Map(), starting: new Map() }));
    return lane;
  }

  function forget({ keyId, active, waiting }: Lane): void {
    if (active === 0 && waiting.size === 0) lanes.delete(keyId);
  }

  function sendNext(): void {
    for (let passed = 0; passed < turns.length && active < connections;) {
      const lane = turns.shift() as Lane;
      const request = lane.waiting.values().next().value as UpstreamRequest;
      if (lane.active >= (request.key?.isUnknown ? 1 : mostOfKey)) {
        turns.push(lane);
        passed += 1;
        continue;
      }
      lane.waiting.delete(request.queueKey);
      if (lane.waiting.size > 0) turns.push(lane);
      passed = 0;
      const refusal = findRefusal(request) ?? (breaker.mayTry() ? undefined : unavailable());
      if (refusal) {
        request.finish(refusal);
        forget(lane);
      } else {
        active += 1;
        lane.active += 1;
        lane.starting.set(request.queueKey, request);
        request.start();
      }
    }
    if (breaker.isOpen) refuseWaiting();
  }

  /** Nobody waits for a connection to an upstream that does not answer, which may take until the time limit. */
  function refuseWaiting(): void {
    for (const lane of turns.splice(0)) {
      const requests = [...lane.waiting.values()];
      lane.waiting.clear();
      forget(lane);
      for (const request of requests) request.finish(findRefusal(request) ?? unavailable());
    }
  }

  function findRefusal({ key, retries }: UpstreamRequest): StoreError | undefined {
    return retries === 0 ? key?.start() : key?.findRefusal();
  }
}
