import type { Cooldown } from '../access/cooldown.js';
import type { WindowState } from '../access/ledger.js';
import { keyBanned, operationTooLarge, rateLimited, secondsUntil } from '../access/refusals.js';
import type { UpstreamAnswerHead } from '../access/session.js';
import { createBoundedCache } from '../bounded-cache.js';
import { monotonicNow } from '../clock.js';
import type { StoreError } from '../errors.js';
import { createLimitsParser, type ParseLimits } from './limits.js';

/** How long a key counts as refused after a 401. */
const REFUSED_MS = 5_000;
/** Before the gateway refuses a key for longer than this, it sends one request. */
const LONG_MS = 60_000;
/** Resets closer than this belong to the same window, because the upstream states whole seconds. */
const SAME_WINDOW_MS = 2_000;

export type Keys = ReturnType<typeof createKeys>;

/**
 * Creates the states of all keys.
 * @param capacity - the most keys that the upstream has answered with anything but 401
 * @param otherCapacity - the most others, which may be made up
 */
export function createKeys(capacity = 100_000, otherCapacity = 10_000) {
  const parseLimits = createLimitsParser();
  const answered = createBoundedCache<KeyState>(capacity);
  const others = createBoundedCache<KeyState>(otherCapacity);
  return {
    get(keyId: string): KeyState {
      let state = answered.get(keyId) ?? others.get(keyId);
      if (!state) others.set(keyId, (state = new KeyState(parseLimits)));
      return state;
    },
    /** Keeps a key that the upstream has accepted, or that has a cooldown, longer than the others. */
    keep(keyId: string, state: KeyState): void {
      if (answered.has(keyId) || (!state.isAccepted && !state.cooldown)) return;
      others.delete(keyId);
      answered.set(keyId, state);
    },
  };
}

/** What the upstream's answers say about one key. */
export class KeyState {
  /** Whether the upstream has accepted the key: refusals other than 401 say nothing about that. */
  isAccepted = false;
  /** Requests that were admitted and have not ended. */
  inFlight = 0;
  #refusal: { readonly error: StoreError; readonly until: number } | undefined;
  #cooldown: (Cooldown & { readonly error: StoreError | undefined }) | undefined;
  /** Until the upstream has accepted the key, and after each cooldown, one request goes first. */
  #isKnown = false;
  /** The numbers of the last answer that stated any. */
  #stated: readonly WindowState[] = [];
  /** When that answer arrived, by `performance.now()`. */
  #statedAt = 0;

  constructor(private readonly parseLimits: ParseLimits) {}

  /** Whether one request must go first, to learn the limits. */
  get isUnknown(): boolean {
    const now = monotonicNow();
    return !this.#isKnown || this.#stated.some(({ resetAt }) => resetAt <= now);
  }

  get isStated(): boolean {
    return this.#stated.length > 0;
  }

  /** The open windows, minus the requests in flight. */
  get windows(): readonly WindowState[] {
    const now = monotonicNow();
    return this.#stated
      .filter(({ resetAt }) => resetAt > now)
      .map((window) => ({ ...window, remaining: Math.max(0, window.remaining - this.inFlight) }));
  }

  get cooldown(): Cooldown | undefined {
    return this.#cooldown && this.#cooldown.until > monotonicNow() ? this.#cooldown : undefined;
  }

  /**
   * Why nothing may be sent now: the upstream refused the key, or the key is in a cooldown.
   * @param cost - of an operation that is not admitted yet. Waiting requests get the error of the upstream itself
   */
  findRefusal(cost?: number): StoreError | undefined {
    const now = monotonicNow();
    if (this.#refusal && this.#refusal.until > now) return this.#refusal.error;
    if (!this.#cooldown || this.#cooldown.until <= now) return undefined;
    const { code, retryAt, error } = this.#cooldown;
    if (cost === undefined && error) return error;
    const retryAfter = secondsUntil(retryAt, now);
    if (code === 'key_banned') return keyBanned(retryAfter);
    return this.#findExcess(cost ?? 1) ?? rateLimited(retryAfter, cost);
  }

  /** Why `cost` requests do not fit into the windows. Before a refusal for more than a minute, one request goes first. */
  findLimit(cost: number): StoreError | undefined {
    if (this.isUnknown) return undefined;
    const full = this.windows.filter(({ remaining }) => remaining < cost);
    if (full.length === 0) return undefined;
    const excess = this.#findExcess(cost);
    if (excess) return excess;
    const wait = secondsUntil(Math.max(...full.map(({ resetAt }) => resetAt)), monotonicNow());
    const isUsedUp = this.#stated.some(({ remaining }) => remaining === 0);
    const isOld = performance.now() - this.#statedAt >= LONG_MS;
    const mayTry = wait * 1_000 > LONG_MS && this.inFlight === 0 && (isUsedUp || isOld);
    if (!mayTry) return rateLimited(wait, cost, full);
    this.#isKnown = false;
    return undefined;
  }

  /**
   * Updates the state from an answer. The parameters are those of `UpstreamKey.learn`.
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
    if (status < 500) this.#isKnown = this.isAccepted;
    const stated = this.parseLimits(answer, now);
    if (stated.length > 0) {
      const hasOverlapped = sentAt < this.#statedAt;
      this.#stated = hasOverlapped ? stated.map((window) => this.#merge(window, now)) : stated;
      this.#statedAt = performance.now();
    } else this.#stated = this.#stated.filter(({ resetAt }) => resetAt > now);
    if (!refusal) return;
    const code = refusal.code === 'key_banned' ? 'key_banned' : 'rate_limited';
    const retryAt = now + (refusal.retryAfter ?? 0) * 1_000;
    // A request with a banned key could prolong the ban.
    const until = code === 'key_banned' ? retryAt : Math.min(retryAt, now + LONG_MS);
    this.coolDown({ until, retryAt, code }, refusal);
  }

  /** Starts a cooldown, unless a longer one is in progress. */
  coolDown(cooldown: Cooldown, error?: StoreError): void {
    if (cooldown.until > (this.cooldown?.until ?? 0)) this.#cooldown = { ...cooldown, error };
    this.#isKnown = false;
  }

  /** Why waiting would not help. */
  #findExcess(cost: number): StoreError | undefined {
    const largest = Math.min(...this.#stated.map(({ limit }) => limit));
    return cost > largest ? operationTooLarge(cost, largest) : undefined;
  }

  /** Of two answers whose requests were in flight together, the one with the smaller `remaining` is the newer one. */
  #merge(stated: WindowState, now: number): WindowState {
    const known = this.#stated.find(({ name }) => name === stated.name);
    if (!known || known.resetAt <= now || Math.abs(stated.resetAt - known.resetAt) > SAME_WINDOW_MS) return stated;
    return { ...stated, remaining: Math.min(known.remaining, stated.remaining) };
  }
}
