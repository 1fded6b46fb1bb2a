import { ApolloLink } from '@apollo/client/link';
import { catchError, map, mergeMap, of, throwError, timer, type Observable } from 'rxjs';
import { createWaits, prepareHeaders, type RetryOptions } from './refusal.js';

export type { RetryOptions, RetryWait } from './refusal.js';

/**
 * Creates a link that repeats a refused operation after the time that the refusal states. It gives each mutation an
 * `Idempotency-Key`, so no animal is added twice. It passes on every result that has data, and failures to connect.
 */
export function createRetryAfterLink(options: RetryOptions = {}): ApolloLink {
  return new ApolloLink((operation, forward) => {
    const isMutation = (operation.operationType as string) === 'mutation';
    const init = operation.getContext().headers as Record<string, string> | undefined;
    const { headers, isRepeatable } = prepareHeaders(init, isMutation, options);
    operation.setContext({ headers });
    const nextWait = createWaits(options);
    const send = (): Observable<ApolloLink.Result> =>
      forward(operation).pipe(
        map((result) => ({ result, error: undefined })),
        catchError((error: unknown) => of({ result: undefined, error })),
        mergeMap(({ result, error }) => {
          const wait = isRepeatable ? nextWait(result ?? error) : undefined;
          if (wait) return timer(wait.waitMs).pipe(mergeMap(send));
          return result ? of(result) : throwError(() => error);
        }),
      );
    return send();
  });
}
