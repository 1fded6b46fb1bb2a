import { toStoreErrors } from './errors.js';
import { readForeignResponse } from './foreign-response.js';
import { createIdempotencyKey } from './idempotency-key.js';

/** Options of the link and of the exchange. */
export interface RetryOptions {
  /** The longest total wait of one operation, in milliseconds (default 70,000). A longer wait does not start. */
  readonly maxWaitMs?: number;
  /** `false` if the store ignores the header `Idempotency-Key`. Mutations are then never repeated. */
  readonly idempotencyKeys?: boolean;
  /** Called when a wait starts, for example to show it on a page. */
  readonly onWait?: (wait: RetryWait) => void;
}

/** A wait before an operation is repeated. `repeat` counts from 1. */
export interface RetryWait {
  readonly code: 'RATE_LIMITED' | 'KEY_BANNED' | 'SERVICE_UNAVAILABLE';
  readonly waitMs: number;
  readonly repeat: number;
}

const MAX_REPEATS = 5;
const FIRST_PAUSE_MS = 1_000;
/** Each wait is extended by up to this, at random, so that many pages do not come back at once. */
const JITTER_MS = 1_000;

/**
 * Creates the waits of one operation.
 * @returns a function that takes each outcome: a result, or what the client threw. It returns the wait that follows;
 *   undefined if the outcome has data, a wait would not help, or there is no time
 */
export function createWaits({ maxWaitMs: leftMs = 70_000, onWait }: RetryOptions) {
  let repeat = 0;
  return (outcome: unknown): RetryWait | undefined => {
    const refusal = findRefusal(outcome);
    const { retryAfter = (FIRST_PAUSE_MS * 2 ** repeat) / 1_000 } = refusal ?? {};
    if (!refusal || repeat === MAX_REPEATS || retryAfter * 1_000 > leftMs) return undefined;
    const waitMs = Math.min(leftMs, retryAfter * 1_000 + Math.random() * JITTER_MS);
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
  const errors = [...toStoreErrors(outcome)];
  if (!errors[0] && response?.headers) errors.push(readForeignResponse(response.status ?? 0, response.headers));
  return errors
    .filter((e) => e.code === 'RATE_LIMITED' || e.code === 'KEY_BANNED' || e.code === 'SERVICE_UNAVAILABLE')
    .sort((a, b) => (b.retryAfter ?? 0) - (a.retryAfter ?? 0))[0];
}

/** Gives a mutation its key. Without one, it may not be repeated: the animal could be added twice. */
export function prepareHeaders(
  init: ConstructorParameters<typeof Headers>[0],
  isMutation: boolean,
  { idempotencyKeys }: RetryOptions,
) {
  const headers = new Headers(init);
  const name = 'idempotency-key';
  if (isMutation && idempotencyKeys !== false && !headers.get(name)) headers.set(name, createIdempotencyKey());
  return { headers: Object.fromEntries(headers), isRepeatable: !isMutation || Boolean(headers.get(name)) };
}
