import type { Exchange, Operation } from '@urql/core';
import { delay, filter, fromValue, makeSubject, map, merge, mergeMap, pipe, share, takeUntil } from 'wonka';
import { createIdempotencyKey } from './idempotency-key.js';
import { createWaits, IDEMPOTENCY_KEY, type RetryOptions } from './refusal.js';

export type { RetryOptions, RetryWait } from './refusal.js';

/**
 * Creates an exchange for urql that repeats a refused operation after the time that the refusal states. It gives each
 * mutation an `Idempotency-Key`, so no animal is added twice. It passes on every result that has data, and failures to
 * connect. Place it before the `fetchExchange`.
 */
export function createRetryAfterExchange(options: RetryOptions = {}): Exchange {
  return ({ forward }) =>
    (operations$) => {
      const waits = new Map<number, ReturnType<typeof createWaits>>();
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
          const outcome = {
            data: data as unknown,
            graphQLErrors: error?.graphQLErrors,
            response: error?.response as unknown,
          };
          const wait = waits.get(operation.key)?.(outcome);
          if (wait) repeats.next({ operation, waitMs: wait.waitMs });
          else waits.delete(operation.key);
          return !wait;
        }),
      );

      function prepare(operation: Operation): Operation {
        const { kind, key, context } = operation;
        waits.delete(key);
        if (kind === 'teardown') return operation;
        const init = (typeof context.fetchOptions === 'function' ? context.fetchOptions() : context.fetchOptions) ?? {};
        const headers = new Headers(init.headers);
        if (kind === 'mutation' && options.idempotencyKeys !== false && !headers.has(IDEMPOTENCY_KEY))
          headers.set(IDEMPOTENCY_KEY, createIdempotencyKey());
        if (kind === 'query' || headers.has(IDEMPOTENCY_KEY)) waits.set(key, createWaits(options));
        const fetchOptions = { ...init, headers: Object.fromEntries(headers) };
        return { ...operation, context: { ...context, fetchOptions } };
      }
    };
}
