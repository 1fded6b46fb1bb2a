import { ApolloLink } from '@apollo/client/link';
import { catchError, mergeMap, of, throwError, timer, type Observable } from 'rxjs';
import { prepareOperation, type RetryOptions } from './waits.js';

export type { RetryOptions, RetryWait } from './waits.js';

/**
 * Creates a link that repeats a refused operation after the time that the refusal states. It gives each mutation an
 * `Idempotency-Key`, so no animal is added twice. It passes on every result that has data, and failures to connect.
 */
export function createRetryAfterLink(options: RetryOptions = {}): ApolloLink {
  return new ApolloLink((operation, forward) => {
    const isMutation = (operation.operationType as string) === 'mutation';
    const init = operation.getContext().headers as Record<string, string> | undefined;
    const { headers, nextWait } = prepareOperation(init, isMutation, options);
    operation.setContext({ headers });
    // Both operators below also see the outcome of a repeat. If that is final, there is no next wait.
    const repeat = (outcome: unknown): Observable<ApolloLink.Result> | undefined => {
      const wait = nextWait(outcome);
      return wait && timer(wait.waitMs).pipe(mergeMap(send));
    };
    const send = (): Observable<ApolloLink.Result> =>
      forward(operation).pipe(
        mergeMap((result) => repeat(result) ?? of(result)),
        catchError((error: unknown) => repeat(error) ?? throwError(() => error)),
      );
    return send();
  });
}
