import { LRUCache } from 'lru-cache';

/**
 * Creates a cache that evicts the least recently used entries. It grows with its entries. The `max` option of lru-cache
 * would allocate memory for all entries at once, which takes a tenth of the startup time.
 * @param capacity - the most entries to keep
 */
export function createBoundedCache<Value extends object>(capacity: number): LRUCache<string, Value> {
  return new LRUCache<string, Value>({ maxSize: capacity, sizeCalculation: () => 1 });
}
