import { ApolloLink } from '@apollo/client/link';
import { Observable, type Subscription } from 'rxjs';
import { toStoreErrors } from './errors.js';
import { parseRetryAfter } from './retry-after.js';

export interface RetryAfterLinkOptions {
  /** The longest total wait of one operation, in milliseconds. A wait that would exceed it does not start. */
  readonly maxWaitMs?: number;
  /** The most repeats of one operation. */
  readonly maxRepeats?: number;
  /** Each wait is extended by up to this, at random, in milliseconds, so that many pages do not come back at once. */
  readonly jitterMs?: number;
  /**
   * `true`, or a function that returns a key, gives each mutation without an `Idempotency-Key` its own key, which its
   * repeats share. Otherwise the link repeats a mutation only if the application sets that header in its context.
   */
  readonly idempotencyKeys?: boolean | (() => string);
  /** Called when a wait starts, for example to show it on a page. */
  readonly onWait?: (wait: RetryWait) => void;
}

/** A wait before a repeat. */
export interface RetryWait {
  readonly operation: ApolloLink.Operation;
  /** The reason for the wait. */
  readonly code: WaitCode;
  /** Milliseconds. */
  readonly waitMs: number;
  /** The number of the repeat that follows, starting at 1. */
  readonly repeat: number;
}

/** The codes after which the link waits. */
export type WaitCode = 'RATE_LIMITED' | 'KEY_BANNED' | 'SERVICE_UNAVAILABLE';

/** A little more than the window of one minute. */
const MAX_WAIT_MS = 70_000;
const MAX_REPEATS = 5;
const JITTER_MS = 1_000;
/** The first pause if a response states none. Each further pause is twice as long. */
const FIRST_PAUSE_MS = 1_000;
const IDEMPOTENCY_KEY = 'idempotency-key';

/**
 * Creates a link that repeats refused operations after the time that the refusal states. It repeats queries, and an addPet
 * only if it has an `Idempotency-Key`, so no animal is added twice. It passes on every response that has data, and
 * failures to connect.
 */
export function createRetryAfterLink(options: RetryAfterLinkOptions = {}): ApolloLink {
  const { maxWaitMs = MAX_WAIT_MS, maxRepeats = MAX_REPEATS, jitterMs = JITTER_MS, idempotencyKeys, onWait } = options;
  const createKey = typeof idempotencyKeys === 'function' ? idempotencyKeys : createIdempotencyKey;

  return new ApolloLink((operation, forward) => {
    if (idempotencyKeys && isMutation(operation) && !hasIdempotencyKey(operation)) {
      const headers = { ...headersOf(operation), [IDEMPOTENCY_KEY]: createKey() };
      operation.setContext({ headers });
    }
    if (!isRepeatable(operation)) return forward(operation);

    return new Observable<ApolloLink.Result>((observer) => {
      let subscription: Subscription | undefined;
      let timer: ReturnType<typeof setTimeout> | undefined;
      let waitedMs = 0;
      let repeats = 0;
      send();
      return () => {
        clearTimeout(timer);
        subscription?.unsubscribe();
      };

      function send(): void {
        timer = undefined;
        subscription = forward(operation).subscribe({
          next: (result) => waitFor(result) || observer.next(result),
          error: (error: unknown) => waitFor(error) || observer.error(error),
          complete: () => timer === undefined && observer.complete(),
        });
      }

      /** Starts to wait if the response asks for it and there is time. */
      function waitFor(outcome: unknown): boolean {
        if (timer !== undefined) return true;
        const refusal = findRefusal(outcome, FIRST_PAUSE_MS * 2 ** repeats);
        const leftMs = maxWaitMs - waitedMs;
        if (!refusal || refusal.waitMs > leftMs || repeats >= maxRepeats) return false;
        const waitMs = Math.min(leftMs, refusal.waitMs + Math.random() * jitterMs);
        waitedMs += waitMs;
        repeats += 1;
        timer = setTimeout(send, waitMs);
        onWait?.({ operation, code: refusal.code, waitMs, repeat: repeats });
        return true;
      }
    });
  });
}

/** Whether an operation may be sent again: a query, or a mutation with an `Idempotency-Key`. */
export function isRepeatable(operation: ApolloLink.Operation): boolean {
  return !isMutation(operation) || hasIdempotencyKey(operation);
}

/** Why and how long to wait; undefined for a response that the link passes on. */
function findRefusal(
  outcome: unknown,
  pauseMs: number,
): { readonly code: WaitCode; readonly waitMs: number } | undefined {
  const { data, response } = outcome as { readonly data?: unknown; readonly response?: unknown };
  if (typeof data === 'object' && data !== null && Object.values(data).some((value) => value !== null))
    return undefined;
  const errors = toStoreErrors(outcome);
  let longest: { code: WaitCode; waitMs: number } | undefined;
  for (const error of errors) {
    if (error.code !== 'RATE_LIMITED' && error.code !== 'KEY_BANNED' && error.code !== 'SERVICE_UNAVAILABLE') continue;
    const waitMs = error.retryAfter === undefined ? pauseMs : error.retryAfter * 1_000;
    if (longest === undefined || waitMs > longest.waitMs) longest = { code: error.code, waitMs };
  }
  return errors.length > 0 ? longest : findForeignRefusal(response, pauseMs);
}

/** Reads a refusal that is not GraphQL, so it comes from something in front of the store, such as a load balancer. */
function findForeignRefusal(response: unknown, pauseMs: number): ReturnType<typeof findRefusal> {
  const { status, headers } = (response ?? {}) as Partial<Response>;
  if (status !== 429 && status !== 503) return undefined;
  const seconds = headers && parseRetryAfter(headers);
  return {
    code: status === 429 ? 'RATE_LIMITED' : 'SERVICE_UNAVAILABLE',
    waitMs: seconds === undefined ? pauseMs : seconds * 1_000,
  };
}

function isMutation({ operationType }: ApolloLink.Operation): boolean {
  return (operationType as string) === 'mutation';
}

function hasIdempotencyKey(operation: ApolloLink.Operation): boolean {
  return Object.entries(headersOf(operation)).some(
    ([name, value]) => name.toLowerCase() === IDEMPOTENCY_KEY && Boolean(value),
  );
}

function headersOf(operation: ApolloLink.Operation): Readonly<Record<string, unknown>> {
  return (operation.getContext().headers ?? {}) as Readonly<Record<string, unknown>>;
}

/** A random key of 128 bits. Unlike `crypto.randomUUID`, this also works on pages without TLS. */
function createIdempotencyKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}
