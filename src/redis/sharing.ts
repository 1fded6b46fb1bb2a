import type { Sharing } from '../backend.js';
import { openRedis, type RedisOptions } from './client.js';
import { createRedisCooldowns } from './cooldowns.js';
import { shareLedger } from './ledger.js';

/** Connects to Redis, which shares limits, bans and cooldowns between all instances. @throws ConfigError */
export async function openSharing(options: RedisOptions): Promise<Sharing> {
  const client = await openRedis(options);
  return {
    isUp: () => client.isUp,
    ledger: (local, nameOf, bans) => shareLedger(client, local, nameOf, bans),
    cooldowns: () => createRedisCooldowns(client),
    close: () => client.close(),
  };
}
