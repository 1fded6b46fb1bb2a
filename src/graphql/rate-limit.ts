import type { GraphQLResolveInfo } from 'graphql';
import type { getGraphQLRateLimiter, Store } from 'graphql-rate-limit';
import { secondsUntil } from '../access/refusals.js';
import type { RateLimitGuard, Session } from '../access/session.js';
import { createBoundedCache } from '../bounded-cache.js';
import { fromWallTime, monotonicNow, toWallTime } from '../clock.js';
import { StoreError } from '../errors.js';

/** The window slides. */
const WINDOW_MS = 60_000;
const MAX_USES = 60;
const MAX_KEYS = 50_000;

/** Makes the guard of the free field `rateLimit`, of /v1/key and of the tool `limits`, which the ledger does not count. */
export function createRateLimitGuard(): RateLimitGuard {
  /** When each key used them, by `monotonicNow`, at most `MAX_USES` times. */
  const uses = createBoundedCache<readonly number[]>(MAX_KEYS);
  const store: Pick<Store, keyof Store> = {
    // The package measures with the wall clock, which may step.
    setForIdentity: ({ contextIdentity: key }, times) => void uses.set(key, times.map(fromWallTime)),
    getForIdentity: ({ contextIdentity: key }) => (uses.get(key) ?? []).map(toWallTime),
  };
  /** Until when each key that is refused has used them up: asking the package again would take long. */
  const refusals = createBoundedCache<{ readonly until: number }>(MAX_KEYS);
  let limiter: ReturnType<typeof getGraphQLRateLimiter> | undefined;
  let last = Promise.resolve();

  return (session) => {
    // The package reads and writes its store in two steps, so the uses go through them one after the other.
    const use = last.then(() => pass(session));
    last = use.catch(() => undefined);
    return use;
  };

  async function pass({ keyId = '' }: Session): Promise<void> {
    let until = refusals.get(keyId)?.until ?? 0;
    if (until <= monotonicNow()) {
      // The package brings much that the field alone needs, so the program's start does not wait for it.
      limiter ??= (await import('graphql-rate-limit')).getGraphQLRateLimiter({ identifyContext: String, store });
      const refusal = await limiter(
        // The package looks at nothing but the name of the field.
        { parent: undefined, args: {}, context: keyId, info: { fieldName: 'rateLimit' } as GraphQLResolveInfo },
        { max: MAX_USES, window: `${WINDOW_MS}ms`, uncountRejected: true },
      );
      if (refusal === undefined) return;
      until = (uses.get(keyId)?.[0] ?? 0) + WINDOW_MS;
      refusals.set(keyId, { until });
    }
    throw new StoreError('field_rate_limited', `Free requests about a key are served ${MAX_USES} times a minute.`, {
      retryAfter: secondsUntil(until, monotonicNow()),
    });
  }
}
