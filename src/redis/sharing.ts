import { hash } from 'node:crypto';
import type { Sharing } from '../backend.js';
import { openRedis, type RedisOptions } from './client.js';
import { createRedisCooldowns } from './cooldowns.js';
import { shareLedger } from './ledger.js';

/**
 * Connects to Redis, which shares limits, bans and cooldowns between all instances. What it holds is named here. The
 * braces put all names of an account in one slot of a cluster. @throws ConfigError
 */
export async function openSharing(options: RedisOptions): Promise<Sharing> {
  const client = await openRedis(options);
  return {
    isUp: () => client.isUp,
    ledger(local, kind, bans) {
      // Redis should not hold personal data, such as client addresses.
      const toName = (id: string): string => (kind.endsWith('key') ? id : hash('sha256', id, 'base64url').slice(0, 22));
      return shareLedger(client, local, (id) => `animals:${kind}:{${toName(id)}}`, bans);
    },
    cooldowns: () => createRedisCooldowns(client, (keyId) => `animals:proxy:wait:{${keyId}}`),
    close: () => client.close(),
  };
}
