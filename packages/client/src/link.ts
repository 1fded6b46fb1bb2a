import { ApolloLink } from '@apollo/client/link';
import { catchError, defer, map, of, retry, throwError, timer } from 'rxjs';
import { createIdempotencyKey } from './idempotency-key.js';
import { createWaits, IDEMPOTENCY_KEY, type RetryOptions } from './refusal.js';

export type { RetryOptions, RetryWait } from './refusal.js';

/** Carries a result through the operators for errors. */
class Refused extends Error {
  constructor(readonly result: ApolloLink.Result) {
    super();
  }
}

/**
 * Creates a link that repeats a refused operation after the time that the refusal states. It gives each mutation an
 * `Idempotency-Key`, so no animal is added twice. It passes on every result that has data, and failures to connect.
 */
export function createRetryAfterLink(options: RetryOptions = {}): ApolloLink {
  return new ApolloLink((operation, forward) => {
    if (!isRepeatable(operation) && options.idempotencyKeys !== false) {
      const headers = { ...headersOf(operation), [IDEMPOTENCY_KEY]: createIdempotencyKey() };
      operation.setContext({ headers });
    }
    if (!isRepeatable(operation)) return forward(operation);
    return defer(() => {
      const nextWait = createWaits(options);
      const delay = (outcome: unknown) => {
        const wait = nextWait(outcome instanceof Refused ? outcome.result : outcome);
        return wait ? timer(wait.waitMs) : throwError(() => outcome);
      };
      return defer(() => forward(operation)).pipe(
        map((result) => {
          if (result.errors) throw new Refused(result);
          return result;
        }),
        retry({ delay }),
        catchError((outcome: unknown) => (outcome instanceof Refused ? of(outcome.result) : throwError(() => outcome))),
      );
    });
  });
}

/** Whether an operation may be sent again, by this link or another: a query, or a mutation with an `Idempotency-Key`. */
export function isRepeatable(operation: ApolloLink.Operation): boolean {
  if ((operation.operationType as string) !== 'mutation') return true;
  return Object.entries(headersOf(operation)).some(([name, value]) => name.toLowerCase() === IDEMPOTENCY_KEY && value);
}

function headersOf(operation: ApolloLink.Operation): Readonly<Record<string, unknown>> {
  return (operation.getContext().headers ?? {}) as Readonly<Record<string, unknown>>;
}
