import type { GraphQLResolveInfo } from 'graphql';
import type { Store } from 'graphql-rate-limit';
import { createBoundedCache } from '../bounded-cache.js';
import { StoreError } from '../errors.js';
import type { FieldInfo } from './compile.js';
import type { OperationContext } from './run.js';

/**
 * Lets a field through, or refuses it.
 * @throws StoreError `field_rate_limited` beyond 60 uses a minute by one key
 */
export type RateLimitGuard = (context: OperationContext, info: FieldInfo) => Promise<void>;

/** The window slides. */
const WINDOW_MS = 60_000;
const MAX_USES = 60;
/** Keys counted at the most. */
const MAX_KEYS = 50_000;

/** Makes the guard of the free field `rateLimit`, which the ledger does not count. */
export function createRateLimitGuard(): RateLimitGuard {
  /** The times at which each key used the field, at most `MAX_USES` of them. */
  const uses = createBoundedCache<readonly number[]>(MAX_KEYS, WINDOW_MS);
  let loading: ReturnType<typeof loadLimiter> | undefined;
  let last = Promise.resolve();

  return (context, info) => {
    // The package reads and writes its store in two steps, so the uses go through them one after the other.
    const use = last.then(() => pass(context, info));
    last = use.catch(() => undefined);
    return use;
  };

  async function pass(context: OperationContext, info: FieldInfo): Promise<void> {
    const limiter = await (loading ??= loadLimiter(uses));
    const refusal = await limiter(
      // The package looks at nothing but the name of the field.
      { parent: undefined, args: {}, context, info: info as unknown as GraphQLResolveInfo },
      { max: MAX_USES, window: `${WINDOW_MS}ms`, uncountRejected: true },
    );
    if (refusal === undefined) return;
    const oldest = uses.get(toKey(context))?.[0] ?? Date.now();
    const retryAfter = Math.max(1, Math.ceil((oldest + WINDOW_MS - Date.now()) / 1_000));
    throw new StoreError('field_rate_limited', `rateLimit is served ${MAX_USES} times a minute.`, { retryAfter });
  }
}

/** The package brings much that the field alone needs, so the program's start does not wait for it. */
async function loadLimiter(uses: ReturnType<typeof createBoundedCache<readonly number[]>>) {
  const { getGraphQLRateLimiter } = await import('graphql-rate-limit');
  const store: Pick<Store, keyof Store> = {
    setForIdentity: ({ contextIdentity: key }, timestamps) => void uses.set(key, timestamps),
    // The package measures with the wall clock. After a step back, later times would count for longer than the window.
    getForIdentity: ({ contextIdentity: key }) => (uses.get(key) ?? []).filter((time) => time <= Date.now()),
  };
  return getGraphQLRateLimiter({ identifyContext: toKey, store });
}

function toKey({ session }: OperationContext): string {
  return session.keyId ?? '';
}
