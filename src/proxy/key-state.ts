import type { UpstreamAnswerHead } from '../access/upstream-key.js';
import type { WindowState } from '../access/ledger.js';
import { parseWait } from '../access/limit-fields.js';
import { keyBanned, keyRefused, rateLimited, secondsUntil } from '../access/refusals.js';
import { createBoundedCache } from '../bounded-cache.js';
import { monotonicNow } from '../clock.js';
import type { StoreError } from '../errors.js';
import type { Cooldown } from './cooldown.js';
import { LimitState } from './limit-state.js';
import type { PendingRequest } from './pending-request.js';

/** How long a key counts as refused after a 401 of the upstream. */
const REFUSED_KEY_MS = 5_000;

/** How a probe ended: the upstream answered, or it did not. */
type ProbeResult = 'answered' | 'failed';

interface Probe {
  readonly ended: Promise<ProbeResult>;
  readonly end: (result: ProbeResult) => void;
}

/** The states of all keys. */
export interface KeyStates {
  /** Returns the state of a key, and creates it if there is none. */
  get(keyId: string): KeyState;
}

/** @param capacity - the most keys in the cache; the least recently used key is removed first */
export function createKeyStates(capacity = 100_000): KeyStates {
  const states = createBoundedCache<KeyState>(capacity);
  return {
    get(keyId) {
      let state = states.get(keyId);
      if (!state) {
        state = new KeyState();
        states.set(keyId, state);
      }
      return state;
    },
  };
}

/** What the gateway knows about one key: its limits, its cooldown and its requests in flight. */
export class KeyState {
  readonly limits = new LimitState();
  #cooldown: Cooldown | undefined;
  #refusedUntil = 0;
  /** Admitted requests without an answer so far. */
  #inFlight = 0;
  #probe: Probe | undefined;
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
   * @param waitMs - how long the operation may wait for the probe; after that, it is admitted without known limits
   * @returns true for the probe, which must call `endProbe`
   * @throws StoreError `unauthorized`, `rate_limited`, `key_banned` or `operation_too_large`
   */
  async admit(cost: number, waitMs: number): Promise<boolean> {
    for (let mayWait = true; ;) {
      const refusal = this.findRefusal(cost);
      if (refusal) throw refusal;
      this.limits.requireRoom(cost, this.#inFlight, monotonicNow());
      const isProbe = this.limits.knowledge === 'unknown' && !this.#probe;
      if (isProbe) this.#probe = createProbe();
      if (isProbe || !mayWait || !this.#probe) {
        this.#inFlight += cost;
        return isProbe;
      }
      mayWait = (await Promise.race([this.#probe.ended, failAfter(waitMs)])) === 'answered';
    }
  }

  /** Admits `cost` more requests of the probe's batch, which must not wait for its own probe. */
  admitWithProbe(cost: number): void {
    this.#inFlight += cost;
  }

  /** Removes requests that have been answered or never will be. */
  release(count: number): void {
    this.#inFlight -= count;
  }

  /** Ends the probe. The operations that wait for it continue. */
  endProbe(result: ProbeResult): void {
    this.#probe?.end(result);
    this.#probe = undefined;
  }

  /**
   * Updates the state from an answer.
   * @param sentAt - when its request was sent, by `performance.now()`
   */
  learn(answer: UpstreamAnswerHead, sentAt: number): void {
    const now = monotonicNow();
    if (answer.status === 401) {
      // The headers of a 401 state the limits of the gateway's address, not of the key.
      this.#refusedUntil = now + REFUSED_KEY_MS;
      return;
    }
    this.limits.learn(answer, sentAt, now);
    if (answer.status !== 429) return;
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
    this.limits.knowledge = 'unknown';
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

function createProbe(): Probe {
  let end: Probe['end'] = () => undefined;
  const ended = new Promise<ProbeResult>((resolve) => (end = resolve));
  return { ended, end };
}

function failAfter(milliseconds: number): Promise<ProbeResult> {
  return new Promise((resolve) => {
    setTimeout(resolve, milliseconds, 'failed').unref();
  });
}
