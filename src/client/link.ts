import { ApolloLink } from '@apollo/client/link';
import { Observable, type Subscription } from 'rxjs';
import { toStoreErrors } from './errors.js';

export interface RetryAfterLinkOptions {
  /** How long one operation may wait in all, in milliseconds. A wait that would end later is not begun. */
  readonly maxWaitMs?: number;
  /** How often one operation is repeated at the most. */
  readonly maxRepeats?: number;
  /** Each wait is longer by a random part of this, in milliseconds, so that many pages do not come back at once. */
  readonly jitterMs?: number;
  /**
   * Gives every mutation that has no `Idempotency-Key` one of its own, kept when it is repeated; or the function that makes
   * one. Without it mutations are repeated only when the application has put that header into their context.
   */
  readonly idempotencyKeys?: boolean | (() => string);
  /** Is told of every wait that begins, for a page to show. */
  readonly onWait?: (wait: RetryWait) => void;
}

/** A wait before an operation is repeated. */
export interface RetryWait {
  readonly operation: ApolloLink.Operation;
  /** Why. */
  readonly code: WaitCode;
  /** How long, in milliseconds. */
  readonly waitMs: number;
  /** Which repeat of the operation comes after it, counted from 1. */
  readonly repeat: number;
}

/** The codes that this link waits for. */
export type WaitCode = 'RATE_LIMITED' | 'KEY_BANNED' | 'SERVICE_UNAVAILABLE';

/** A minute's window and something more. */
const MAX_WAIT_MS = 70_000;
const MAX_REPEATS = 5;
const JITTER_MS = 1_000;
/** The first pause where an answer names none; the next ones double. */
const FIRST_PAUSE_MS = 1_000;
const IDEMPOTENCY_KEY = 'idempotency-key';

/**
 * Makes the link that repeats what the store has refused for a while, after the time that the refusal names. Queries are
 * repeated; an addPet only under an `Idempotency-Key`, so that no animal is ever added twice. What has any data is
 * handed on as it came, and so are failures to connect.
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
      let asked: Subscription | undefined;
      let timer: ReturnType<typeof setTimeout> | undefined;
      let waitedMs = 0;
      let repeats = 0;
      ask();
      return () => {
        clearTimeout(timer);
        asked?.unsubscribe();
      };

      function ask(): void {
        timer = undefined;
        asked = forward(operation).subscribe({
          next: (result) => waitFor(result) || observer.next(result),
          error: (error: unknown) => waitFor(error) || observer.error(error),
          complete: () => timer === undefined && observer.complete(),
        });
      }

      /** Begins to wait, if that is what the answer asks for and there is time. */
      function waitFor(answer: unknown): boolean {
        if (timer !== undefined) return true;
        const refusal = findRefusal(answer, FIRST_PAUSE_MS * 2 ** repeats);
        const leftMs = maxWaitMs - waitedMs;
        if (!refusal || refusal.waitMs > leftMs || repeats >= maxRepeats) return false;
        const waitMs = Math.min(leftMs, refusal.waitMs + Math.random() * jitterMs);
        waitedMs += waitMs;
        repeats += 1;
        timer = setTimeout(ask, waitMs);
        onWait?.({ operation, code: refusal.code, waitMs, repeat: repeats });
        return true;
      }
    });
  });
}

/** Tells whether an operation may be sent again: a query, or a mutation under an `Idempotency-Key`. */
export function isRepeatable(operation: ApolloLink.Operation): boolean {
  return !isMutation(operation) || hasIdempotencyKey(operation);
}

/** Why and how long to wait; undefined for an answer that is to be handed on. */
function findRefusal(
  answer: unknown,
  pauseMs: number,
): { readonly code: WaitCode; readonly waitMs: number } | undefined {
  const { data, response } = answer as { readonly data?: unknown; readonly response?: unknown };
  if (typeof data === 'object' && data !== null && Object.values(data).some((value) => value !== null))
    return undefined;
  const errors = toStoreErrors(answer);
  let longest: { code: WaitCode; waitMs: number } | undefined;
  for (const error of errors) {
    if (error.code !== 'RATE_LIMITED' && error.code !== 'KEY_BANNED' && error.code !== 'SERVICE_UNAVAILABLE') continue;
    const waitMs = error.retryAfter === undefined ? pauseMs : error.retryAfter * 1_000;
    if (longest === undefined || waitMs > longest.waitMs) longest = { code: error.code, waitMs };
  }
  return errors.length > 0 ? longest : findForeignRefusal(response, pauseMs);
}

/** The refusal of something before the store, such as a load balancer, which answers in no GraphQL. */
function findForeignRefusal(response: unknown, pauseMs: number): ReturnType<typeof findRefusal> {
  const { status, headers } = (response ?? {}) as Partial<Response>;
  if (status !== 429 && status !== 503) return undefined;
  const seconds = Number.parseInt(headers?.get('retry-after') ?? '', 10);
  return {
    code: status === 429 ? 'RATE_LIMITED' : 'SERVICE_UNAVAILABLE',
    waitMs: Number.isNaN(seconds) ? pauseMs : seconds * 1_000,
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

/** A random key of 128 bits. Unlike `crypto.randomUUID` it is there on pages without TLS too. */
function createIdempotencyKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}
