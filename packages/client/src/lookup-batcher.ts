import { isStoreErrorCode, STORE_ERRORS } from './errors.js';
import { createKeyLimits } from './key-limits.js';
import type { LoadedPet, LookupRequest, LookupResponse, LookupResult } from './lookup-request.js';
import { PetError, type Failure, type PetErrorCode } from './pet-error.js';

/** Collects lookups and sends many of them in one request. */
export interface LookupBatcher {
  /** Looks up one animal, together with all other lookups of this turn of the event loop. */
  join(id: string): Lookup;
  /** Stops waiting for a lookup; call it once for each `join`. A request is cancelled when no caller waits for it. */
  leave(lookup: Lookup): void;
}

export interface LookupBatcherOptions {
  readonly request: LookupRequest;
  readonly maxRootFields: number;
  readonly concurrency: number;
  readonly waitBudgetMs: number;
}

/** An animal to look up. Callers read only `result`. */
export interface Lookup {
  readonly id: string;
  /** The animal, or why there is none. It stays pending if no caller waits for it. */
  readonly result: Promise<LoadedPet | PetError>;
  readonly settle: (result: LoadedPet | PetError) => void;
  /** When its wait budget ends, by `performance.now()`. */
  readonly deadline: number;
  /** How many callers wait for it. */
  waiting: number;
  /** Retries after failures that state no time to wait. */
  retries: number;
  /** Why the last attempt failed. */
  failure?: Failure;
  /** The request that it is part of; undefined while it is queued. */
  sent?: SentRequest | undefined;
}

interface SentRequest {
  readonly controller: AbortController;
  /** How many of its lookups still have a waiting caller. */
  wanted: number;
}

/** The most retries of one lookup, not counting refusals that state a time to wait. */
const MAX_RETRIES = 6;
/** Each request earns this many retries, so that a client adds little to the load of a store in trouble. */
const RETRIES_PER_REQUEST = 0.2;
/** The most retries that can be saved up, and the number at the start. */
const RETRY_RESERVE = 10;

const FIRST_BACKOFF_MS = 100;
const LONGEST_BACKOFF_MS = 5_000;
/** Each wait for a window is extended by up to this, at random, so that many clients do not come back at once. */
const JITTER_MS = 250;

/** Runs a function after the promise callbacks of this turn. `setImmediate` is faster, but only some runtimes have it. */
const nextTurn: (run: () => void) => unknown =
  (globalThis as { setImmediate?: (run: () => void) => unknown }).setImmediate ?? ((run) => setTimeout(run, 0));

export function createLookupBatcher(options: LookupBatcherOptions): LookupBatcher {
  const { request, concurrency, waitBudgetMs } = options;
  const limits = createKeyLimits();
  /** Lookups that wait to be sent, in order. */
  let queue = new Set<Lookup>();
  /** The lookups of this turn by id, so that equal ids share one. */
  const collected = new Map<string, Lookup>();
  let requestsInFlight = 0;
  let lookupsInFlight = 0;
  /** The most lookups that the store takes in one request. */
  let maxLookups = options.maxRootFields;
  /** While true, the client sends one request at a time and waits for its response. */
  let isProbing = true;
  let failuresInARow = 0;
  let retries = RETRY_RESERVE;
  /** By `performance.now()`. */
  let pausedUntil = 0;
  let timer: ReturnType<typeof setTimeout> | undefined;

  return {
    join(id) {
      if (collected.size === 0) nextTurn(sendCollected);
      let lookup = collected.get(id);
      // A lookup without a waiting caller has been cancelled.
      if (!lookup || lookup.waiting === 0) {
        lookup = createLookup(id, performance.now() + waitBudgetMs);
        collected.set(id, lookup);
        queue.add(lookup);
      }
      lookup.waiting += 1;
      return lookup;
    },
    leave(lookup) {
      lookup.waiting -= 1;
      if (lookup.waiting > 0) return;
      queue.delete(lookup);
      if (queue.size === 0) clearTimeout(timer);
      if (lookup.sent && (lookup.sent.wanted -= 1) === 0) lookup.sent.controller.abort();
    },
  };

  function sendCollected(): void {
    collected.clear();
    sendQueued();
  }

  /** Sends the lookups that may be sent now. A response or a timer continues with the rest. */
  function sendQueued(): void {
    clearTimeout(timer);
    while (queue.size > 0 && requestsInFlight < (isProbing ? 1 : concurrency)) {
      const now = performance.now();
      if (now < pausedUntil) return waitUntil(pausedUntil);
      const size = Math.min(queue.size, maxLookups, limits.largestCost);
      const room = limits.room(lookupsInFlight);
      // The responses in flight may show more room, and one full request is better than two.
      if (room < size && requestsInFlight > 0) return;
      if (room < 1) return waitUntil(now + limits.msUntilOpen() + Math.random() * JITTER_MS);
      void send(take(Math.min(size, room)));
    }
  }

  /** Continues at a time, by `performance.now()`. Lookups whose wait budget ends before that fail now. */
  function waitUntil(time: number): void {
    const waitMs = time - performance.now();
    const retryAfter = Math.max(1, Math.ceil(waitMs / 1_000));
    const message = `The client may not send this lookup for ${retryAfter} s. Its wait budget is ${waitBudgetMs} ms.`;
    for (const lookup of queue) {
      if (lookup.deadline >= time) continue;
      queue.delete(lookup);
      settle(lookup, { failure: lookup.failure ?? { code: 'RATE_LIMITED', message, retryAfter } });
    }
    if (queue.size > 0) timer = setTimeout(sendQueued, waitMs);
  }

  function take(count: number): readonly Lookup[] {
    const taken: Lookup[] = [];
    for (const lookup of queue) {
      if (taken.length === count) break;
      taken.push(lookup);
      queue.delete(lookup);
    }
    return taken;
  }

  async function send(lookups: readonly Lookup[]): Promise<void> {
    const sent = { controller: new AbortController(), wanted: lookups.length };
    for (const lookup of lookups) lookup.sent = sent;
    requestsInFlight += 1;
    lookupsInFlight += lookups.length;
    retries = Math.min(RETRY_RESERVE, retries + RETRIES_PER_REQUEST);
    const response = await request(
      lookups.map(({ id }) => id),
      sent.controller,
    );
    requestsInFlight -= 1;
    lookupsInFlight -= lookups.length;
    for (const lookup of lookups) lookup.sent = undefined;
    if (sent.wanted > 0) readResponse(lookups, response);
    sendQueued();
  }

  function readResponse(lookups: readonly Lookup[], response: LookupResponse): void {
    limits.learn(response.headers);
    if (response.isTooLarge && lookups.length > 1) {
      // If the windows, just learned, explain the refusal, the store may take as many lookups as before.
      if (limits.largestCost >= lookups.length) maxLookups = Math.min(maxLookups, Math.ceil(lookups.length / 2));
      return requeue(lookups);
    }
    if (response.refusal?.code === 'UNAUTHENTICATED') {
      // The queued lookups would fail in the same way.
      for (const lookup of queue) settle(lookup, { failure: response.refusal });
      queue.clear();
    }
    settleOrRetry(lookups, response);
  }

  function settleOrRetry(lookups: readonly Lookup[], { results, refusal }: LookupResponse): void {
    const again: Lookup[] = [];
    let mayRetry: boolean | undefined;
    let waitMs = 0;
    lookups.forEach((lookup, index) => {
      const result = results[index] as LookupResult;
      const { failure } = result;
      const repeat = failure ? repeatOf(failure.code) : 'no';
      const isRetried =
        repeat === 'after-wait' ||
        (repeat === 'with-backoff' && lookup.retries < MAX_RETRIES && (mayRetry ??= takeRetry()));
      if (!failure || !isRetried) return settle(lookup, result);
      if (repeat === 'with-backoff') lookup.retries += 1;
      lookup.failure = failure;
      waitMs = Math.max(waitMs, (failure.retryAfter ?? 0) * 1_000 + Math.random() * JITTER_MS);
      again.push(lookup);
    });
    isProbing = refusal !== undefined || again.length > 0;
    failuresInARow = again.length > 0 ? failuresInARow + 1 : 0;
    if (again.length === 0) return;
    pause(waitMs);
    requeue(again);
  }

  /** Takes one retry from the reserve. Lookups that fail together are retried together, so they need only one. */
  function takeRetry(): boolean {
    if (retries < 1) return false;
    retries -= 1;
    return true;
  }

  /** Pauses at least for the time that the store states, and longer after each failure, in case the store states 0. */
  function pause(statedMs: number): void {
    const longestMs = Math.min(LONGEST_BACKOFF_MS, FIRST_BACKOFF_MS * 2 ** (failuresInARow - 1));
    const backoffMs = longestMs * (0.5 + Math.random() / 2);
    pausedUntil = Math.max(pausedUntil, performance.now() + Math.max(backoffMs, statedMs));
  }

  /** Puts lookups back at the front of the queue. */
  function requeue(lookups: readonly Lookup[]): void {
    queue = new Set([...lookups.filter(({ waiting }) => waiting > 0), ...queue]);
  }
}

function createLookup(id: string, deadline: number): Lookup {
  let settle: Lookup['settle'] = () => undefined;
  const result = new Promise<LoadedPet | PetError>((resolve) => (settle = resolve));
  return { id, result, settle, deadline, waiting: 0, retries: 0 };
}

function settle(lookup: Lookup, { pet, failure }: LookupResult): void {
  lookup.settle(failure ? new PetError(failure, lookup.id) : pet);
}

/** Whether another attempt may succeed. A lookup changes nothing, so it is always safe to repeat. */
function repeatOf(code: PetErrorCode): 'no' | 'after-wait' | 'with-backoff' {
  if (isStoreErrorCode(code)) return STORE_ERRORS[code].repeat;
  return code === 'CONNECTION_FAILED' || code === 'TIMED_OUT' ? 'with-backoff' : 'no';
}
