import { toStoreErrors } from './errors.js';
import { readForeignResponse } from './foreign-response.js';

/** Options of the link and of the exchange. */
export interface RetryOptions {
  /** The longest total wait of one operation, in milliseconds (default 70,000). A longer wait does not start. */
  readonly maxWaitMs?: number;
  /** `false` if the store ignores the header `Idempotency-Key`. Mutations are then never repeated. */
  readonly idempotencyKeys?: boolean;
  /** Called when a wait starts, for example to show it on a page. */
  readonly onWait?: (wait: RetryWait) => void;
}

/** A wait before an operation is repeated. */
export interface RetryWait {
  readonly code: 'RATE_LIMITED' | 'KEY_BANNED' | 'SERVICE_UNAVAILABLE';
  /** Milliseconds. */
  readonly waitMs: number;
  /** The number of the repeat that follows, starting at 1. */
  readonly repeat: number;
}

export const IDEMPOTENCY_KEY = 'idempotency-key';
/** A little more than the window of one minute. */
const MAX_WAIT_MS = 70_000;
const MAX_REPEATS = 5;
const FIRST_PAUSE_MS = 1_000;
/** Each wait is extended by up to this, at random, so that many pages do not come back at once. */
const JITTER_MS = 1_000;

/**
 * Creates the waits of one operation.
 * @returns a function that takes each outcome: a result, or what the client threw. It returns the wait that follows;
 *   undefined if the outcome has data, no wait would help, or there is no time
 */
export function createWaits({ maxWaitMs = MAX_WAIT_MS, onWait }: RetryOptions) {
  let repeat = 0;
  let leftMs = maxWaitMs;
  return (outcome: unknown): RetryWait | undefined => {
    const refusal = findRefusal(outcome);
    if (!refusal || repeat === MAX_REPEATS) return undefined;
    const statedMs = refusal.retryAfter === undefined ? FIRST_PAUSE_MS * 2 ** repeat : refusal.retryAfter * 1_000;
    if (statedMs > leftMs) return undefined;
    const waitMs = Math.min(leftMs, statedMs + Math.random() * JITTER_MS);
    leftMs -= waitMs;
    const wait = { code: refusal.code, waitMs, repeat: (repeat += 1) };
    onWait?.(wait);
    return wait;
  };
}

/** The error with the longest wait, unless a field has data. */
function findRefusal(outcome: unknown): (Pick<RetryWait, 'code'> & { readonly retryAfter?: number }) | undefined {
  const { data, response } = outcome as { readonly data?: unknown; readonly response?: Partial<Response> };
  if (Object.values(data ?? {}).some((value) => value !== null)) return undefined;
  const errors = toStoreErrors(outcome);
  const foreign = response?.headers && [readForeignResponse(response.status ?? 0, response.headers)];
  return (errors.length > 0 ? errors : (foreign ?? []))
    .filter((e) => e.code === 'RATE_LIMITED' || e.code === 'KEY_BANNED' || e.code === 'SERVICE_UNAVAILABLE')
    .sort((a, b) => (b.retryAfter ?? 0) - (a.retryAfter ?? 0))[0];
}
