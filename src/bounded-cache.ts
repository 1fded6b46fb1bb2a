import { LRUCache } from 'lru-cache';

/**
 * Creates a cache that evicts the least recently used entries. It grows with its entries. The `max` option of lru-cache
 * would allocate memory for all entries at once, which takes a tenth of the startup time.
 * @param capacity - the most entries to keep
 * @param ttl - how long to keep an entry, in milliseconds; forever by default
 * @param onEvict - called with the key of an entry that had no room
 */
export function createBoundedCache<Value extends object>(
  capacity: number,
  ttl?: number,
  onEvict?: (key: string) => void,
): LRUCache<string, Value> {
  return new LRUCache<string, Value>({
    maxSize: capacity,
    sizeCalculation: () => 1,
    ...(ttl !== undefined && { ttl }),
    ...(onEvict && { dispose: (_, key, reason) => reason === 'evict' && onEvict(key) }),
  });
}

/** How long results are kept, in milliseconds. Some of the texts are keys, which should not stay in memory. */
const KEPT_MS = 5_000;
const MAX_TEXTS = 10_000;
/** Longer texts cannot be keys of a store, and keeping them would cost memory. */
const MAX_LENGTH = 256;

/**
 * Memoizes a function for a few seconds. The same few keys arrive again and again, and hashing a key costs more than
 * the rest of its lookup.
 * @param read - always returns the same result for the same text
 */
export function memoize<T>(read: (text: string) => T): (text: string) => T {
  const known = new Map<string, T>();
  return (text) => {
    const memoized = known.get(text);
    if (memoized !== undefined) return memoized;
    const result = read(text);
    if (text.length > MAX_LENGTH) return result;
    if (known.size === 0) setTimeout(() => known.clear(), KEPT_MS).unref();
    known.set(text, result);
    if (known.size === MAX_TEXTS) known.clear();
    return result;
  };
}
