import type { Exchange, Operation } from '@urql/core';
import { delay, filter, fromValue, makeSubject, map, merge, mergeMap, pipe, share, takeUntil } from 'wonka';
import { prepareOperation, type NextWait, type RetryOptions } from './waits.js';

export type { RetryOptions, RetryWait } from './waits.js';

/**
 * Creates an exchange for urql that repeats a refused operation after the time that the refusal states. It gives each
 * mutation an `Idempotency-Key`, so no animal is added twice. It passes on every result that has data, and failures to
 * connect. Place it before the `fetchExchange`.
 */
export function createRetryAfterExchange(options: RetryOptions = {}): Exchange {
  const prepare = (operation: Operation): Operation => {
    const { kind, context } = operation;
    const init = typeof context.fetchOptions === 'function' ? context.fetchOptions() : context.fetchOptions;
    const { headers, nextWait } = prepareOperation(init?.headers, kind === 'mutation', options);
    return { ...operation, context: { ...context, nextWait, fetchOptions: { ...init, headers } } };
  };
  return ({ forward }) =>
    (operations$) => {
      const repeats = makeSubject<{ operation: Operation; waitMs: number }>();
      const incoming$ = pipe(operations$, map(prepare), share);
      const delayed$ = pipe(
        repeats.source,
        mergeMap(({ operation, waitMs }) => {
          const isEnd = ({ kind, key }: Operation): boolean => kind === 'teardown' && key === operation.key;
          return pipe(fromValue(operation), delay(waitMs), takeUntil(pipe(incoming$, filter(isEnd))));
        }),
      );
      return pipe(
        merge([incoming$, delayed$]),
        forward,
        filter(({ operation, data, error }) => {
          const nextWait = operation.context.nextWait as NextWait | undefined;
          const wait = nextWait?.(Object.assign({ data: data as unknown }, error));
          if (wait) repeats.next({ operation, waitMs: wait.waitMs });
          return !wait;
        }),
      );
    };
}
