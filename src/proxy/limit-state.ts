import type { UpstreamAnswerHead } from '../access/upstream-key.js';
import type { WindowState } from '../access/ledger.js';
import { parseStatedWindows, type StatedWindow } from '../access/limit-fields.js';
import { operationTooLarge, rateLimited, secondsUntil } from '../access/refusals.js';

/** Two resets closer than this belong to the same window, because the upstream states whole seconds. */
const SAME_WINDOW_MS = 2_000;

/** The limits of one key, as the upstream's answers state them. */
export class LimitState {
  /** `unknown`: no answer yet, or none since the last 429; `unstated`: the answers state no limits. */
  knowledge: 'unknown' | 'unstated' | 'stated' = 'unknown';
  /** The numbers of the last answer that stated any. They are kept after a 429, for the response headers. */
  #stated: readonly StatedWindow[] = [];
  /** When that answer arrived, by `performance.now()`. */
  #statedAt = 0;
  #hasAnswered = false;

  /** True if the upstream has answered for this key and states no limits. */
  get isUnstated(): boolean {
    return this.#hasAnswered && this.#stated.length === 0;
  }

  /** The lengths and limits of the windows; empty while none are known. */
  get policies(): readonly Pick<WindowState, 'seconds' | 'limit'>[] {
    return this.#stated;
  }

  /** The windows now, minus the requests in flight; empty while none are known. */
  windows(inFlight: number, now: number): readonly WindowState[] {
    return this.#stated.map((window) => {
      const isOpen = window.resetAt > now;
      return {
        ...window,
        remaining: Math.max(0, (isOpen ? window.remaining : window.limit) - inFlight),
        resetAt: isOpen ? window.resetAt : now + (window.seconds ?? 0) * 1_000,
      };
    });
  }

  /** @throws StoreError `rate_limited` or `operation_too_large` if the windows have no room for `cost` requests */
  requireRoom(cost: number, inFlight: number, now: number): void {
    if (this.knowledge !== 'stated') return;
    const windows = this.windows(inFlight, now);
    const smallest = Math.min(...windows.map(({ limit }) => limit));
    if (cost > smallest) throw operationTooLarge(cost, smallest);
    const resets = windows.filter(({ remaining }) => remaining < cost).map(({ resetAt }) => secondsUntil(resetAt, now));
    if (resets.length > 0) throw rateLimited(Math.max(...resets), cost, windows);
  }

  /**
   * Reads the numbers of an answer.
   * @param sentAt - when its request was sent, by `performance.now()`
   */
  learn(answer: UpstreamAnswerHead, sentAt: number, now: number): void {
    const stated = parseStatedWindows(answer, now);
    const isAnswer = answer.status < 500;
    if (isAnswer) this.#hasAnswered = true;
    if (stated.length > 0) {
      const hasOverlapped = sentAt < this.#statedAt;
      this.#stated = stated.map((window) => this.#merge(window, now, hasOverlapped));
      this.#statedAt = performance.now();
      this.knowledge = 'stated';
    } else if (this.knowledge === 'unknown' && isAnswer) this.knowledge = 'unstated';
  }

  /**
   * The last answer counts, but answers may arrive out of order. If two requests were in flight together, the smaller
   * `remaining` of the same window is the newer one. Resets are rounded up to seconds, so the earliest is the most exact.
   */
  #merge(stated: StatedWindow, now: number, hasOverlapped: boolean): StatedWindow {
    const known = this.#stated.find(({ name }) => name === stated.name);
    if (!known || known.resetAt <= now || Math.abs(stated.resetAt - known.resetAt) > SAME_WINDOW_MS) return stated;
    const remaining = hasOverlapped ? Math.min(known.remaining, stated.remaining) : stated.remaining;
    const resetAt = Math.min(known.resetAt, stated.resetAt);
    return { name: stated.name, seconds: stated.seconds, limit: stated.limit, remaining, resetAt };
  }
}
