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

/**
 * Takes each outcome of an operation: a result, or what the client threw. It returns the wait that follows; undefined
 * if the outcome has data, a wait would not help, or there is no time. The same outcome then gives undefined again.
 */
export type NextWait = (outcome: unknown) => RetryWait | undefined;

const MAX_REPEATS = 5;
/** Each wait is extended by up to this, at random, so that many pages do not come back at once. */
const JITTER_MS = 1_000;

/**
 * Prepares an operation before it is sent: gives a mutation its idempotency key. Without such keys, it is not repeated,
 * because the animal could be added twice.
 */
export function prepareOperation(
  init: ConstructorParameters<typeof Headers>[0],
  isMutation: boolean,
  { idempotencyKeys, maxWaitMs: leftMs = 70_000, onWait }: RetryOptions,
): { readonly headers: Record<string, string>; readonly nextWait: NextWait } {
  const headers = new Headers(init);
  const name = 'idempotency-key';
  if (isMutation && idempotencyKeys !== false && !headers.get(name)) headers.set(name, createIdempotencyKey());
  const maxRepeats = isMutation && idempotencyKeys === false ? 0 : MAX_REPEATS;
  let repeat = 0;
  const nextWait: NextWait = (outcome) => {
    // In seconds, as the refusal states; otherwise each wait is twice the last.
    const { code, retryAfter = 2 ** repeat } = findRefusal(outcome) ?? {};
    if (!code || repeat === maxRepeats || retryAfter * 1_000 > leftMs) return undefined;
    const waitMs = Math.min(leftMs, retryAfter * 1_000 + Math.random() * JITTER_MS);
    leftMs -= waitMs;
    const wait = { code, waitMs, repeat: (repeat += 1) };
    // What it throws must not keep the caller from the result.
    if (onWait) queueMicrotask(() => onWait(wait));
    return wait;
  };
  return { headers: Object.fromEntries(headers), nextWait };
}

/** The error with the longest wait, unless a field has data. */
function findRefusal(
  outcome: unknown,
): { readonly code?: RetryWait['code']; readonly retryAfter?: number } | undefined {
  const { data, response } = Object(outcome) as { readonly data?: unknown; readonly response?: Partial<Response> };
  if (Object.values(data ?? {}).some((value) => value !== null)) return undefined;
  const errors = [...toStoreErrors(outcome)];
  if (!errors[0] && response?.headers) errors.push(readForeignResponse(response.status ?? 0, response.headers));
  return errors
    .filter((e) => e.code === 'RATE_LIMITED' || e.code === 'KEY_BANNED' || e.code === 'SERVICE_UNAVAILABLE')
    .sort((a, b) => (b.retryAfter ?? 0) - (a.retryAfter ?? 0))[0];
}
