import type { WindowState } from '../access/ledger.js';
import { PUBLISHED_LIMITS, type Plan, type PlanLimits } from '../access/plans.js';
import { operationTooLarge, rateLimited, secondsUntil } from '../access/refusals.js';
import type { UpstreamAnswerHead } from '../access/session.js';
import { monotonicNow } from '../clock.js';
import type { StoreError } from '../errors.js';
import { parseStatedWindows } from './limit-fields.js';

/** Two resets closer than this belong to the same window, because the upstream states whole seconds. */
const SAME_WINDOW_MS = 2_000;
/** Before refusing for longer than this, or by numbers older than this, the gateway asks the upstream. */
export const LONG_MS = 60_000;

export type PublishedPlan = keyof typeof PUBLISHED_LIMITS;

const PUBLISHED = Object.entries(PUBLISHED_LIMITS) as [PublishedPlan, PlanLimits][];

/** The limits of one key, as the upstream's answers state them, and the requests that they do not include yet. */
export class LimitState {
  /** Admitted requests without an answer so far. */
  inFlight = 0;
  /** False before the first answer, after a 429, and while the numbers are in doubt. */
  #isKnown = false;
  #hasAnswered = false;
  /** The numbers of the last answer that stated any. They are kept after a 429, for the response headers. */
  #stated: readonly WindowState[] = [];
  /** When that answer arrived, by `performance.now()`. */
  #statedAt = 0;
  /** True while a request goes out although the numbers say that none is left. */
  #isDoubted = false;

  /** Whether one request must go first: nothing is known of the limits, or a window has ended since. */
  get isUnknown(): boolean {
    if (!this.#isKnown) return true;
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

  /** The plan of these limits, if their numbers leave no doubt. */
  get plan(): Plan | undefined {
    const [minute, day] = this.#stated;
    if (minute && day && minute.seconds === 60 && day.seconds === 86_400) {
      const plan = PUBLISHED.find(([, { perMinute, perDay }]) => perMinute === minute.limit && perDay === day.limit);
      return plan?.[0] ?? 'enterprise';
    }
    if (!minute || day || minute.seconds !== null) return undefined;
    return minute.limit === 60 ? 'free' : minute.limit === 300 ? 'pro' : undefined;
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

  /** The cost of the largest operation that the known windows can hold. */
  get largestCost(): number {
    return Math.min(...this.windows.map(({ limit }) => limit));
  }

  /**
   * Why `cost` requests do not fit into the open windows, `rate_limited` or `operation_too_large`, unless one request
   * should test whether that is still true.
   */
  findRefusal(cost: number): StoreError | undefined {
    if (!this.#isKnown) return undefined;
    const now = monotonicNow();
    const open = this.windows.filter((_, index) => (this.#stated[index]?.resetAt ?? 0) > now);
    const full = open.filter(({ remaining }) => remaining < cost);
    if (full.length === 0 || this.#doubt(cost, now)) return undefined;
    if (cost > this.largestCost) return operationTooLarge(cost, this.largestCost);
    return rateLimited(Math.max(...full.map(({ resetAt }) => secondsUntil(resetAt, now))), cost, open);
  }

  /** Why the rest of the admitted requests does not fit into the limits that the answer to the first one stated. */
  findRestRefusal(rest: number): StoreError | undefined {
    this.inFlight -= rest;
    // The first request has run, so the rest is late and not too large: a client may repeat it in parts.
    const refusal = this.findRefusal(Math.min(rest, this.largestCost));
    this.inFlight += rest;
    return refusal;
  }

  /**
   * Returns true to try one request instead of refusing, because the limit may have been raised or the numbers may be
   * wrong. An upstream that means a window that is used up answers 429 and charges nothing, and a cooldown begins.
   */
  #doubt(cost: number, now: number): boolean {
    const full = this.#stated.filter(({ remaining, resetAt }) => remaining < cost && resetAt > now);
    const isUsedUp = full.every(({ remaining }) => remaining === 0);
    const isLong = isUsedUp && full.some(({ resetAt }) => resetAt - now > LONG_MS);
    if (!isLong && performance.now() - this.#statedAt < LONG_MS) return false;
    this.forget();
    this.#isDoubted = isUsedUp;
    return true;
  }

  /** Makes one request go first again. */
  forget(): void {
    this.#isKnown = false;
  }

  /**
   * Reads the numbers of an answer.
   * @param sentAt - when its request was sent, by `performance.now()`
   */
  learn(answer: UpstreamAnswerHead, sentAt: number, now: number): void {
    const stated = parseStatedWindows(answer, now);
    // The upstream has served a request that its numbers, old and new, would refuse: they mean nothing.
    const isWrong = this.#isDoubted && answer.status < 400 && stated.some(({ remaining }) => remaining === 0);
    if (answer.status < 500) {
      this.#hasAnswered = true;
      this.#isDoubted = false;
      this.#isKnown = true;
    }
    if (isWrong) this.#stated = [];
    else if (stated.length === 0) this.#stated = this.#stated.filter(({ resetAt }) => resetAt > now);
    else {
      const hasOverlapped = sentAt < this.#statedAt;
      this.#stated = stated.map((window) => this.#merge(window, now, hasOverlapped));
      this.#statedAt = performance.now();
      this.#isKnown = true;
    }
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
