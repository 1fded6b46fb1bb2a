import type { GraphQLResolveInfo } from 'graphql';
import { getGraphQLRateLimiter, Store, type Identity } from 'graphql-rate-limit';
import { LRUCache } from 'lru-cache';
import { StoreError } from '../errors.js';
import type { OperationContext } from './context.js';

/**
 * Lets a field through, or refuses it.
 * @throws StoreError `field_rate_limited` beyond 60 uses a minute by one key
 */
export type RateLimitGuard = (context: OperationContext, info: GraphQLResolveInfo) => Promise<void>;

const WINDOW_MS = 60_000;
const MAX_PER_WINDOW = 60;

/** The times at which each key used the field, at most `MAX_PER_WINDOW` of them, for a bounded number of keys. */
class BoundedStore extends Store {
  readonly #uses = new LRUCache<string, readonly number[]>({ max: 50_000, ttl: WINDOW_MS });

  setForIdentity({ contextIdentity }: Identity, timestamps: readonly number[]): void {
    this.#uses.set(contextIdentity, timestamps);
  }

  getForIdentity({ contextIdentity }: Identity): number[] {
    return [...(this.#uses.get(contextIdentity) ?? [])];
  }

  /** Seconds until the oldest use is a window ago. */
  retryAfter(key: string): number {
    const oldest = this.#uses.get(key)?.[0] ?? Date.now();
    return Math.max(1, Math.ceil((oldest + WINDOW_MS - Date.now()) / 1_000));
  }
}

/** Makes the guard of the free field `rateLimit`, which the ledger does not count. */
export function createRateLimitGuard(): RateLimitGuard {
  const store = new BoundedStore();
  const limiter = getGraphQLRateLimiter({ identifyContext: toKey, store });
  const waiting = new Map<string, Promise<void>>();

  return (context, info) => {
    const key = toKey(context);
    // The package reads and writes its store in two steps; one key's uses go through them one after the other.
    const use = (waiting.get(key) ?? Promise.resolve()).catch(() => undefined).then(() => pass(context, info));
    const settled = use
      .catch(() => undefined)
      .then(() => {
        if (waiting.get(key) === settled) waiting.delete(key);
      });
    waiting.set(key, settled);
    return use;
  };

  async function pass(context: OperationContext, info: GraphQLResolveInfo): Promise<void> {
    const refusal = await limiter(
      { parent: undefined, args: {}, context, info },
      { max: MAX_PER_WINDOW, window: `${WINDOW_MS}ms`, uncountRejected: true },
    );
    if (refusal === undefined) return;
    throw new StoreError('field_rate_limited', `rateLimit is served ${MAX_PER_WINDOW} times a minute.`, {
      retryAfter: store.retryAfter(toKey(context)),
    });
  }
}

function toKey({ visit }: OperationContext): string {
  return visit.keyId ?? '';
}
