import { getGraphQLRateLimiter, Store, type Identity } from 'graphql-rate-limit';
import type { GraphQLResolveInfo } from 'graphql';
import { createBoundedCache } from '../bounded-cache.js';
import type { FieldInfo } from './compile.js';
import type { OperationContext } from './context.js';

/** Counts the uses of a field by each key. */
export interface FieldLimiter {
  /**
   * Counts a use, if there is room for it.
   * @returns undefined when there was, or the seconds until there is
   */
  use(context: OperationContext, info: FieldInfo): Promise<number | undefined>;
}

export interface FieldLimiterOptions {
  /** Uses in a window. */
  readonly max: number;
  /** Length of the window, which slides, in milliseconds. */
  readonly windowMs: number;
  readonly toKey: (context: OperationContext) => string;
}

/** Keys counted at the most. */
const CAPACITY = 50_000;

/** The times at which each key used the field, at most `max` of them. */
class BoundedStore extends Store {
  readonly #uses;

  constructor(private readonly windowMs: number) {
    super();
    this.#uses = createBoundedCache<readonly number[]>(CAPACITY, windowMs);
  }

  setForIdentity({ contextIdentity }: Identity, timestamps: readonly number[]): void {
    this.#uses.set(contextIdentity, timestamps);
  }

  getForIdentity({ contextIdentity }: Identity): number[] {
    // The package measures with the wall clock. After a step back, later times would count for longer than the window.
    return (this.#uses.get(contextIdentity) ?? []).filter((time) => time <= Date.now());
  }

  /** Seconds until the oldest use is a window ago. */
  retryAfter(key: string): number {
    const oldest = this.#uses.get(key)?.[0] ?? Date.now();
    return Math.max(1, Math.ceil((oldest + this.windowMs - Date.now()) / 1_000));
  }
}

/** Makes a limiter of the package graphql-rate-limit. */
export function createFieldLimiter({ max, windowMs, toKey }: FieldLimiterOptions): FieldLimiter {
  const store = new BoundedStore(windowMs);
  const limiter = getGraphQLRateLimiter({ identifyContext: toKey, store });
  return {
    async use(context, info) {
      const refusal = await limiter(
        // The package looks at nothing but the name of the field.
        { parent: undefined, args: {}, context, info: info as unknown as GraphQLResolveInfo },
        { max, window: `${windowMs}ms`, uncountRejected: true },
      );
      return refusal === undefined ? undefined : store.retryAfter(toKey(context));
    },
  };
}
