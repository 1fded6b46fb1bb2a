import { hash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type { RedisLink } from './redis-link.js';

/** The most characters of queries in this process. */
const CAPACITY = 4_000_000;
/**
 * Redis has this many places for queries, of this many bytes each: 4 MiB at most, whatever clients send. The hash of a
 * query chooses its place, and a later query replaces an earlier one. The instances that know the earlier one keep it.
 */
const PLACES = 1_024;
const MAX_BYTES = 4_096;
/** How long Redis keeps a query. A client registers it again when it has expired. */
const KEPT_MS = 86_400_000;

/**
 * Creates Apollo Server's cache of persisted queries, which all processes with the same Redis share. While Redis is
 * unavailable, each process has its own. A key is `apq:` and the SHA-256 of the text.
 * @param link - used for nothing else, so that its failures do not affect the limits
 */
export function createRedisQueryCache(link: RedisLink) {
  const known = new LRUCache<string, string>({ maxSize: CAPACITY, sizeCalculation: (text) => text.length + 100 });

  return {
    async get(key: string): Promise<string | undefined> {
      const found = known.get(key);
      if (found !== undefined) return found;
      const text = await link.ask(
        { name: 'get-query', operation: 'GET' },
        (client) => client.get(toRedisKey(key)),
        (reply) => {
          if (reply !== null && typeof reply !== 'string') throw new Error('an answer that is no query');
          return reply ?? undefined;
        },
      );
      if (text === undefined || `apq:${hash('sha256', text)}` !== key) return undefined;
      known.set(key, text);
      return text;
    },
    async set(key: string, text: string): Promise<void> {
      known.set(key, text);
      if (Buffer.byteLength(text) > MAX_BYTES) return;
      await link.ask(
        { name: 'set-query', operation: 'SET' },
        (client) => client.set(toRedisKey(key), text, 'PX', KEPT_MS),
        (reply) => {
          if (reply !== 'OK') throw new Error('the reply does not match the call');
        },
      );
    },
    delete: (key: string) => Promise.resolve(known.delete(key)),
  };
}

function toRedisKey(key: string): string {
  return `animals:apq:${Number.parseInt(key.slice(-8), 16) % PLACES}`;
}
