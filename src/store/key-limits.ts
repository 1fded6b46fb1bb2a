import { createMemoryLedger } from '../access/memory-ledger.js';
import type { Config } from '../config.js';
import { shareLedger } from '../redis/redis-ledger.js';
import type { RedisLink } from '../redis/redis-link.js';
import type { KeyAdminOptions } from './key-admin.js';

/** Names the counts of a key in Redis. */
export function nameKey(keyId: string): string {
  return `animals:store:key:{${keyId}}`;
}

/** Returns a function that tells what accounts have left according to Redis; undefined while Redis is unavailable. */
export function createRedisPeek(link: RedisLink, bans: Config['bans']): KeyAdminOptions['peek'] {
  // Its own local ledger, because the keys of a long list would evict the counts of keys in use.
  const ledger = shareLedger(link, createMemoryLedger({ capacity: 1 }), nameKey, bans);
  return async (account) => {
    const admission = await ledger.admit(account, 0);
    // After a failure, the ledger has counted here instead.
    return link.isUp ? admission : undefined;
  };
}
