import { setTimeout as sleep } from 'node:timers/promises';
import type { UpstreamAnswerHead } from '../access/upstream-key.js';
import type { WindowState } from '../access/ledger.js';
import { parseWait } from '../access/limit-fields.js';
import { keyBanned, keyRefused, rateLimited, secondsUntil } from '../access/refusals.js';
import { createBoundedCache } from '../bounded-cache.js';
import { monotonicNow } from '../clock.js';
import type { StoreError } from '../errors.js';
import type { Cooldown } from './cooldown.js';
import { LimitState } from './limit-state.js';
import type { PendingRequest, Result } from './pending-request.js';

/** How long a key counts as refused after a 401 of the upstream. */
const REFUSED_KEY_MS = 5_000;

/** The states of all keys. */
export interface KeyStates {
  /** Returns the state of a key, and creates it if there is none. */
  get(keyId: string): KeyState;
  /** Keeps a state apart from those of keys that were never answered, so that made-up keys cannot evict it. */
  keep(keyId: string, state: KeyState): void;
}

/**
 * When a cache is full, the least recently used key is removed first.
 * @param capacity - the most keys that the upstream has answered
 * @param newCapacity - the most other keys
 */
export function createKeyStates(capacity = 100_000, newCapacity = 10_000): KeyStates {
  const answered = createBoundedCache<KeyState>(capacity);
  const others = createBoundedCache<KeyState>(newCapacity);
  return {
    get(keyId) {
      let state = answered.get(keyId) ?? others.get(keyId);
      if (!state) {
        state = new KeyState();
        others.set(keyId, state);
      }
      return state;
    },
    keep(keyId, state) {
      if (answered.has(keyId)) return;
      others.delete(keyId);
      answered.set(keyId, state);
    },
  };
}

/** What the gateway knows about one key: its limits, its cooldown and its requests in flight. */
export class KeyState {
  readonly limits = new LimitState();
  /** When the key was first sent, or last refused by the upstream, by `performance.now()`. */
  newSince = performance.now();
  /** Whether the upstream has accepted the key. */
  isAccepted = false;
  /** Resolves when the request that goes first has ended, with the refusal of the key if there was one. */
  first: Promise<Result | undefined> | undefined;
  #cooldown: Cooldown | undefined;
  #refusedUntil = 0;
  /** Admitted requests without an answer so far. */
  #inFlight = 0;
  #probe: PromiseWithEnd<boolean> | undefined;
  #pending: Map<string, PendingRequest> | undefined;

  /** True for a while after the upstream answered 401. */
  get isRefused(): boolean {
    return this.#refusedUntil > monotonicNow();
  }

  get cooldown(): Cooldown | undefined {
    return this.#cooldown && this.#cooldown.until > monotonicNow() ? this.#cooldown : undefined;
  }

  /** The windows now, minus the requests in flight; empty while none are known. */
  get windows(): readonly WindowState[] {
    return this.limits.windows(this.#inFlight, monotonicNow());
  }

  /** Why nothing may be sent now: the upstream refused the key, or the key is in a cooldown. */
  findRefusal(cost?: number): StoreError | undefined {
    if (this.isRefused) return keyRefused();
    const { cooldown } = this;
    if (!cooldown) return undefined;
    const retryAfter = secondsUntil(cooldown.until, monotonicNow());
    return cooldown.code === 'key_banned' ? keyBanned(retryAfter) : rateLimited(retryAfter, cost);
  }

  /**
   * Admits `cost` requests against the last numbers of the upstream. While there are none, one operation is the probe and
   * the others wait for its answer, so that a burst does not exceed limits that are still unknown.
   * @param until - how long the operation may wait for a probe, by `performance.now()`; it is then admitted without limits
   * @returns true for the probe, which must call `endProbe`
   * @throws StoreError `unauthorized`, `rate_limited`, `key_banned` or `operation_too_large`
   */
  async admit(cost: number, until: number): Promise<boolean> {
    for (let mayWait = true; ;) {
      const refusal = this.findRefusal(cost) ?? this.#findLimitRefusal(cost);
      if (refusal) throw refusal;
      const isProbe = this.limits.isUnknown(monotonicNow()) && !this.#probe;
      if (isProbe) this.#probe = createPromise<boolean>();
      const left = until - performance.now();
      if (isProbe || !mayWait || !this.#probe || left <= 0) {
        this.#inFlight += cost;
        return isProbe;
      }
      mayWait = !(await Promise.race([this.#probe.ended, sleep(left, true, { ref: false })]));
    }
  }

  /** Admits `cost` more requests of the probe's batch, which must not wait for its own probe. */
  admitWithProbe(cost: number): void {
    this.#inFlight += cost;
  }

  /** Why the rest of a probe's requests does not fit into the limits that its first answer stated. */
  findRestRefusal(rest: number): StoreError | undefined {
    // The first request of the operation has run, so the rest is late and not too large: a client may repeat it in parts.
    const largest = Math.min(...this.windows.map(({ limit }) => limit));
    return this.#findLimitRefusal(Math.min(rest, largest), this.#inFlight - rest);
  }

  /** Removes requests that have been answered or never will be. */
  release(count: number): void {
    this.#inFlight -= count;
  }

  /**
   * Ends the probe. The operations that wait for it continue.
   * @param hasFailed - true if the upstream did not answer: they then wait for no other probe
   */
  endProbe(hasFailed: boolean): void {
    this.#probe?.end(hasFailed);
    this.#probe = undefined;
  }

  /**
   * Makes the other requests of the key wait for one, if nothing is known of the key's limits.
   * @returns the function that ends the wait; undefined if there is none
   */
  startFirst(): ((refusal: Result | undefined) => void) | undefined {
    if (!this.limits.isUnknown(monotonicNow())) return undefined;
    const { ended, end } = createPromise<Result | undefined>();
    this.first = ended;
    return (refusal) => {
      this.first = undefined;
      end(refusal);
    };
  }

  /**
   * Updates the state from an answer.
   * @param sentAt - when its request was sent, by `performance.now()`
   */
  learn(answer: UpstreamAnswerHead, sentAt: number): void {
    const now = monotonicNow();
    const { status } = answer;
    if (status === 401) {
      // The headers of a 401 state the limits of the gateway's address, not of the key.
      this.#refusedUntil = now + REFUSED_KEY_MS;
      this.isAccepted = false;
      this.newSince = performance.now();
      this.limits.forget();
      return;
    }
    this.limits.learn(answer, sentAt, now);
    if (status !== 429) {
      if (status < 500 && status !== 403) this.isAccepted = true;
      return;
    }
    const code = answer.errorCode === 'key_banned' ? 'key_banned' : 'rate_limited';
    this.coolDown({ until: now + parseWait(answer, now) * 1_000, code });
  }

  /** Starts a cooldown, or extends the one in progress. After it, one operation is the probe again. */
  coolDown({ until, code }: Cooldown): void {
    const known = this.cooldown;
    this.#cooldown = {
      until: Math.max(known?.until ?? 0, until),
      code: code === 'key_banned' ? code : (known?.code ?? code),
    };
    this.limits.forget();
  }

  /** Why the limits refuse `cost` requests, unless one request should test that. */
  #findLimitRefusal(cost: number, inFlight = this.#inFlight): StoreError | undefined {
    const now = monotonicNow();
    const refusal = this.limits.findRefusal(cost, inFlight, now);
    return refusal && !this.limits.doubt(cost, now) ? refusal : undefined;
  }

  /** Finds the pending GET of this path. */
  findPending(path: string): PendingRequest | undefined {
    return this.#pending?.get(path);
  }

  addPending(request: PendingRequest): void {
    (this.#pending ??= new Map()).set(request.path, request);
  }

  /** Removes a request, unless another one has replaced it. */
  removePending(request: PendingRequest): void {
    if (this.findPending(request.path) !== request) return;
    this.#pending?.delete(request.path);
    if (this.#pending?.size === 0) this.#pending = undefined;
  }
}

interface PromiseWithEnd<T> {
  readonly ended: Promise<T>;
  readonly end: (value: T) => void;
}

function createPromise<T>(): PromiseWithEnd<T> {
  let end!: (value: T) => void;
  const ended = new Promise<T>((resolve) => (end = resolve));
  return { ended, end };
}
