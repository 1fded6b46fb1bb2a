import { StoreError } from '../errors.js';
import type { FieldInfo } from './compile.js';
import type { OperationContext } from './context.js';
import type { FieldLimiter } from './field-limiter.js';

/**
 * Lets a field through, or refuses it.
 * @throws StoreError `field_rate_limited` beyond 60 uses a minute by one key
 */
export type RateLimitGuard = (context: OperationContext, info: FieldInfo) => Promise<void>;

const WINDOW_MS = 60_000;
const MAX_PER_WINDOW = 60;

/** Makes the guard of the free field `rateLimit`, which the ledger does not count. */
export function createRateLimitGuard(): RateLimitGuard {
  const waiting = new Map<string, Promise<void>>();
  let loading: Promise<FieldLimiter> | undefined;

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

  async function pass(context: OperationContext, info: FieldInfo): Promise<void> {
    const limiter = await (loading ??= loadLimiter());
    const retryAfter = await limiter.use(context, info);
    if (retryAfter === undefined) return;
    throw new StoreError('field_rate_limited', `rateLimit is served ${MAX_PER_WINDOW} times a minute.`, { retryAfter });
  }
}

/** The package brings much that the field alone needs, so the program's start does not wait for it. */
async function loadLimiter(): Promise<FieldLimiter> {
  const { createFieldLimiter } = await import('./field-limiter.js');
  return createFieldLimiter({ max: MAX_PER_WINDOW, windowMs: WINDOW_MS, toKey });
}

function toKey({ session }: OperationContext): string {
  return session.keyId ?? '';
}
