import { LRUCache } from 'lru-cache';

/**
 * Makes a cache that forgets what was used least recently. It grows with what is in it, where lru-cache's own `max` takes room for
 * all of it at once: with hundreds of thousands of entries that were a tenth of the program's start.
 * @param capacity - entries at the most
 * @param ttl - how long an entry is kept, in milliseconds; for ever, if it is not given
 */
export function createBoundedCache<Value extends object>(capacity: number, ttl?: number): LRUCache<string, Value> {
  return new LRUCache<string, Value>({
    maxSize: capacity,
    sizeCalculation: () => 1,
    ...(ttl !== undefined && { ttl }),
  });
}
