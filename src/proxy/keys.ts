import type { Cooldown } from '../access/cooldown.js';
import type { WindowState } from '../access/ledger.js';
import { keyBanned, operationTooLarge, rateLimited, secondsUntil } from '../access/refusals.js';
import type { UpstreamAnswerHead } from '../access/session.js';
import { createBoundedCache } from '../bounded-cache.js';
import { monotonicNow } from '../clock.js';
import type { StoreError } from '../errors.js';
import { parseStatedWindows } from './limits.js';

/** How long a key counts as refused after a 401 of the upstream. */
const REFUSED_MS = 5_000;
/** Before the gateway refuses a key for longer than this, it sends one request. */
const LONG_MS = 60_000;
/** Two resets closer than this belong to the same window, because the upstream states whole seconds. */
const SAME_WINDOW_MS = 2_000;

export type Keys = ReturnType<typeof createKeys>;

/**
 * Creates the states of all keys. Accepted keys, those with a cooldown and all others are kept apart, so that made-up
 * keys evict neither. When there are too many of a kind, the least recently used one is removed first.
 * @param capacity - the most keys that the upstream has accepted
 * @param otherCapacity - the most keys of each other kind
 */
export function createKeys(capacity = 100_000, otherCapacity = 10_000) {
  const accepted = createBoundedCache<KeyState>(capacity);
  const limited = createBoundedCache<KeyState>(otherCapacity);
  const others = createBoundedCache<KeyState>(otherCapacity);
  return {
    get(keyId: string): KeyState {
      let state = accepted.get(keyId) ?? limited.get(keyId) ?? others.get(keyId);
      if (!state) {
        state = new KeyState();
        others.set(keyId, state);
      }
      return state;
    },
    /** Keeps the state of a key that the upstream has accepted, or that has a cooldown. */
    keep(keyId: string, state: KeyState): void {
      if (accepted.has(keyId) || (!state.isAccepted && !state.cooldown)) return;
      others.delete(keyId);
      limited.delete(keyId);
      (state.isAccepted ? accepted : limited).set(keyId, state);
    },
  };
}

/** The request of an unknown key that is on its way. The others wait until it has ended. */
interface First {
  readonly ended: Promise<StoreError | undefined>;
  readonly end: (refusal?: StoreError) => void;
}

/** What the upstream's answers say about one key. */
export class KeyState {
  /** Whether the upstream has accepted the key: other refusals than 401 say nothing about it. */
  isAccepted = false;
  /** Requests that were admitted and have not ended. */
  inFlight = 0;
  #first: First | undefined;
  #refusal: { readonly error: StoreError; readonly until: number } | undefined;
  #cooldown: Cooldown | undefined;
  /** Whether the upstream has answered since the key was last forgotten. */
  #isKnown = false;
  #hasAnswered = false;
  /** The numbers of the last answer that stated any. They are kept after a 429, for the response headers. */
  #stated: readonly WindowState[] = [];
  /** When that answer arrived, by `performance.now()`. */
  #statedAt = 0;
  /** Whether a request is sent although the numbers say that none is left. */
  #isTried = false;
  /** Whether the upstream has served such a request. Until it answers 429, a window without requests means nothing. */
  #isLying = false;

  /** Whether one request must go first: the upstream has not answered, or a window has ended since. */
  get isUnknown(): boolean {
    if (!this.#isKnown) return true;
    if (this.#stated.length === 0) return false;
    const now = monotonicNow();
    return this.#stated.some(({ resetAt }) => resetAt <= now);
  }

  get isStated(): boolean {
    return this.#stated.length > 0;
  }

  /** True if the upstream has answered for this key and states no limits. */
  get isUnstated(): boolean {
    return this.#hasAnswered && !this.isStated;
  }

  /** While the first request of an unknown key is on its way: resolves when it has ended, with its refusal. */
  get first(): Promise<StoreError | undefined> | undefined {
    return this.isUnknown ? this.#first?.ended : undefined;
  }

  /** Makes the other requests of the key wait. Returns the function that ends the wait. */
  startFirst(): First['end'] {
    let resolve!: First['end'];
    const ended = new Promise<StoreError | undefined>((settle) => (resolve = settle));
    const first: First = {
      ended,
      end: (refusal) => {
        if (this.#first === first) this.#first = undefined;
        resolve(refusal);
      },
    };
    this.#first = first;
    return first.end;
  }

  /** The upstream's 401, for a while. */
  get refusal(): StoreError | undefined {
    return this.#refusal && this.#refusal.until > monotonicNow() ? this.#refusal.error : undefined;
  }

  get cooldown(): Cooldown | undefined {
    return this.#cooldown && this.#cooldown.until > monotonicNow() ? this.#cooldown : undefined;
  }

  /**
   * Why nothing may be sent now: the upstream refused the key, or the key is in a cooldown.
   * @param cost - of an operation that is not admitted yet
   */
  findRefusal(cost?: number): StoreError | undefined {
    if (!this.#refusal && !this.#cooldown) return undefined;
    const { refusal, cooldown } = this;
    if (refusal || !cooldown) return refusal;
    const retryAfter = secondsUntil(cooldown.retryAt, monotonicNow());
    if (cooldown.code === 'key_banned') return keyBanned(retryAfter);
    // Waiting would not help.
    if (cost !== undefined && cost > this.#largestCost) return operationTooLarge(cost, this.#largestCost);
    return rateLimited(retryAfter, cost);
  }

  /** The windows now, minus the requests in flight; empty while none are known, and when all have ended. */
  get windows(): readonly WindowState[] {
    const now = monotonicNow();
    if (this.#stated.every(({ resetAt }) => resetAt <= now)) return [];
    return this.#stated.map((window) => {
      const isOpen = window.resetAt > now;
      return {
        ...window,
        remaining: Math.max(0, (isOpen ? window.remaining : window.limit) - this.inFlight),
        resetAt: isOpen ? window.resetAt : now + (window.seconds ?? 0) * 1_000,
      };
    });
  }

  /** How many more requests fit into the known windows. */
  get room(): number {
    return Math.max(0, Math.min(...this.#stated.map(({ remaining }) => remaining)) - this.inFlight);
  }

  get #largestCost(): number {
    return Math.min(...this.#stated.map(({ limit }) => limit));
  }

  /**
   * Why `cost` requests do not fit into the known windows. Instead of refusing for longer than a minute, it forgets the
   * key, so that one request goes first.
   */
  findLimit(cost: number): StoreError | undefined {
    if (cost <= this.room || this.isUnknown) return undefined;
    const largest = this.#largestCost;
    if (cost > largest) return operationTooLarge(cost, largest);
    const now = monotonicNow();
    const full = this.windows.filter(({ remaining }) => remaining < cost);
    const wait = Math.max(...full.map(({ resetAt }) => resetAt)) - now;
    const isUsedUp = this.#stated.some(({ remaining }) => remaining === 0);
    const isOld = performance.now() - this.#statedAt >= LONG_MS;
    const mayTry = wait > LONG_MS && (isUsedUp || isOld) && this.inFlight === 0;
    if (!mayTry) return rateLimited(Math.max(1, Math.ceil(wait / 1_000)), cost, full);
    this.#isKnown = false;
    this.#isTried = isUsedUp;
    return undefined;
  }

  /**
   * Updates the state from an answer.
   * @param sentAt - when its request was sent, by `performance.now()`
   * @param refusal - the error for the client, if the upstream refused the key or its rate
   */
  learn(answer: UpstreamAnswerHead, sentAt: number, refusal?: StoreError): void {
    const now = monotonicNow();
    const { status } = answer;
    if (refusal?.code === 'unauthorized') {
      // The headers of a 401 state the limits of the gateway's address, not of the key.
      this.#refusal = { error: refusal, until: now + REFUSED_MS };
      this.isAccepted = this.#isKnown = false;
      return;
    }
    if (status < 300 || status === 404) this.isAccepted = true;
    this.#learnLimits(answer, sentAt, now);
    if (!refusal) return;
    this.#isLying = false;
    const code = refusal.code === 'key_banned' ? 'key_banned' : 'rate_limited';
    const retryAt = now + (refusal.retryAfter ?? 0) * 1_000;
    // A request with a banned key could prolong the ban.
    this.coolDown({ until: code === 'key_banned' ? retryAt : Math.min(retryAt, now + LONG_MS), retryAt, code });
  }

  /** Starts a cooldown, or extends the one in progress. After it, one request goes first again. */
  coolDown({ until, retryAt, code }: Cooldown): void {
    const known = this.cooldown;
    this.#cooldown = {
      until: Math.max(known?.until ?? 0, until),
      retryAt: Math.max(known?.retryAt ?? 0, retryAt),
      code: code === 'key_banned' ? code : (known?.code ?? code),
    };
    this.#isKnown = false;
  }

  #learnLimits(answer: UpstreamAnswerHead, sentAt: number, now: number): void {
    let stated = parseStatedWindows(answer, now);
    if (answer.status < 500) {
      const isServed = answer.status < 400;
      this.#isLying ||= this.#isTried && isServed && stated.some(({ remaining }) => remaining === 0);
      this.#hasAnswered = true;
      this.#isTried = false;
      // Until the upstream has accepted the key, one request goes first each time.
      this.#isKnown = this.isAccepted;
    }
    if (this.#isLying) stated = stated.filter(({ remaining }) => remaining > 0);
    if (stated.length === 0) {
      this.#stated = this.#isLying ? [] : this.#stated.filter(({ resetAt }) => resetAt > now);
      return;
    }
    const hasOverlapped = sentAt < this.#statedAt;
    this.#stated = stated.map((window) => this.#merge(window, now, hasOverlapped));
    this.#statedAt = performance.now();
  }

  /**
   * The last answer counts, but answers may arrive out of order. If two requests were in flight together, the smaller
   * `remaining` of the same window is the newer one. Resets are rounded up to seconds: the earliest is the most exact.
   */
  #merge(stated: WindowState, now: number, hasOverlapped: boolean): WindowState {
    const known = this.#stated.find(({ name }) => name === stated.name);
    if (!known || known.resetAt <= now || Math.abs(stated.resetAt - known.resetAt) > SAME_WINDOW_MS) return stated;
    const remaining = hasOverlapped ? Math.min(known.remaining, stated.remaining) : stated.remaining;
    return { ...stated, remaining, resetAt: Math.min(known.resetAt, stated.resetAt) };
  }
}
