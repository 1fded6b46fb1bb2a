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
 * @param capacity - the most keys that the upstream has accepted, or that have a cooldown
 * @param otherCapacity - the most others, which may be made up
 */
export function createKeys(capacity = 100_000, otherCapacity = 10_000) {
  const parseLimits = createLimitsParser();
  const kept = createBoundedCache<KeyState>(capacity);
  const others = createBoundedCache<KeyState>(otherCapacity);
  return {
    get(keyId: string): KeyState {
      let state = kept.get(keyId) ?? others.get(keyId);
      if (!state) others.set(keyId, (state = new KeyState(parseLimits)));
      return state;
    },
    keep(keyId: string, state: KeyState): void {
      if (kept.has(keyId) || (!state.isAccepted && !state.cooldown)) return;
      others.delete(keyId);
      kept.set(keyId, state);
    },
  };
}

/** What the upstream's answers say about one key. */
export class KeyState {
  /** Whether the upstream has accepted the key: refusals other than 401 say nothing about that. */
  isAccepted = false;
  /** Requests that were admitted and have not ended. */
  inFlight = 0;
  /** After a 401. It does not end a cooldown, which may be longer. */
  #refused: { readonly until: number; readonly error: StoreError } | undefined;
  #cooldown: (Cooldown & { readonly cause?: StoreError | undefined }) | undefined;
  /** From then on, one request must go first, to learn the limits. */
  #knownUntil = 0;
  /** The numbers of the last answer that stated any, and when it arrived, by `performance.now()`. */
  #stated: readonly WindowState[] = [];
  #statedAt = 0;

  constructor(private readonly parseLimits: ParseLimits) {}

  get isUnknown(): boolean {
    return this.#knownUntil <= monotonicNow();
  }

  get isStated(): boolean {
    return this.#stated.length > 0;
  }

  /** The open windows, minus the requests in flight. */
  get windows(): readonly WindowState[] {
    return this.#findOpen(monotonicNow()).map(({ name, seconds, limit, remaining, resetAt }) => ({
      name,
      seconds,
      limit,
      remaining: Math.max(0, remaining - this.inFlight),
      resetAt,
    }));
  }

  get cooldown(): Cooldown | undefined {
    return this.#cooldown && this.#cooldown.until > monotonicNow() ? this.#cooldown : undefined;
  }

  /**
   * Why nothing may be sent now.
   * @param cost - of an operation that is not admitted yet. Waiting requests get the error of the upstream itself
   */
  findRefusal(cost?: number): StoreError | undefined {
    if (!this.#refused && !this.#cooldown) return undefined;
    const now = monotonicNow();
    if (this.#refused && this.#refused.until > now) return this.#refused.error;
    const cooldown = this.#cooldown;
    if (!cooldown || cooldown.until <= now) return undefined;
    if (cost === undefined && cooldown.cause) return cooldown.cause;
    const retryAfter = secondsUntil(cooldown.retryAt, now);
    if (cooldown.code === 'key_banned') return keyBanned(retryAfter);
    return this.#findExcess(cost ?? 1) ?? rateLimited(retryAfter, cost);
  }

  /** Why `cost` requests do not fit into the windows. Before a refusal for more than a minute, one request goes first. */
  findLimit(cost: number): StoreError | undefined {
    if (this.isUnknown || !this.#stated.some(({ remaining }) => remaining - this.inFlight < cost)) return undefined;
    const excess = this.#findExcess(cost);
    const full = this.windows.filter(({ remaining }) => remaining < cost);
    if (excess || full.length === 0) return excess;
    const wait = secondsUntil(Math.max(...full.map(({ resetAt }) => resetAt)), monotonicNow());
    const isUsedUp = this.#stated.some(({ remaining }) => remaining === 0);
    const isOld = performance.now() - this.#statedAt >= LONG_MS;
    const mayTry = wait * 1_000 > LONG_MS && this.inFlight === 0 && (isUsedUp || isOld);
    if (!mayTry) return rateLimited(wait, cost, full);
    this.#knownUntil = 0;
    return undefined;
  }

  /** Updates the state from an answer. The parameters are those of `UpstreamKey.learn`. */
  learn(answer: UpstreamAnswerHead, sentAt: number, refusal?: StoreError): void {
    const now = monotonicNow();
    const { status } = answer;
    if (refusal?.code === 'unauthorized') {
      // The headers of a 401 state the limits of the gateway's address, not of the key.
      this.#refused = { until: now + REFUSED_MS, error: refusal };
      this.isAccepted = false;
      this.#knownUntil = 0;
      return;
    }
    this.isAccepted ||= status < 300 || status === 404;
    const stated = this.parseLimits(answer, now);
    // Of two answers whose requests were in flight together, the one with the smaller number is the newer one.
    const overlapped = sentAt < this.#statedAt ? this.#stated : [];
    if (stated.length === 0) {
      this.#stated = this.#findOpen(now);
    } else {
      this.#stated = overlapped.length === 0 ? stated : stated.map((window) => merge(overlapped, window));
      this.#statedAt = performance.now();
    }
    if (status < 500) this.#knownUntil = this.isAccepted ? Math.min(...this.#stated.map(({ resetAt }) => resetAt)) : 0;
    if (!refusal) return;
    const code = refusal.code === 'key_banned' ? 'key_banned' : 'rate_limited';
    const retryAt = now + (refusal.retryAfter ?? 0) * 1_000;
    // A request with a banned key could prolong the ban.
    const until = code === 'key_banned' ? retryAt : Math.min(retryAt, now + LONG_MS);
    this.coolDown({ until, retryAt, code }, refusal);
  }

  /** Starts a cooldown, unless a longer one is in progress. */
  coolDown(cooldown: Cooldown, cause?: StoreError): void {
    if (cooldown.until > (this.cooldown?.until ?? 0)) this.#cooldown = { ...cooldown, cause };
    this.#knownUntil = 0;
  }

  #findOpen(now: number): readonly WindowState[] {
    return this.#stated.filter(({ resetAt }) => resetAt > now);
  }

  /** Why waiting would not help. */
  #findExcess(cost: number): StoreError | undefined {
    const largest = Math.min(...this.#stated.map(({ limit }) => limit));
    return cost > largest ? operationTooLarge(cost, largest) : undefined;
  }
}

function merge(known: readonly WindowState[], stated: WindowState): WindowState {
  const { name, remaining, resetAt } = stated;
  const same = known.find((window) => window.name === name && Math.abs(window.resetAt - resetAt) <= SAME_WINDOW_MS);
  return same && same.remaining < remaining ? { ...stated, remaining: same.remaining } : stated;
}
