import type { Cooldowns } from '../access/cooldown.js';
import { monotonicNow } from '../clock.js';
import type { RedisClient } from './client.js';

/** Creates the cooldowns that all gateways with the same Redis share. In an outage, each has its own. */
export function createRedisCooldowns(client: RedisClient, nameOf: (keyId: string) => string): Cooldowns {
  const run = client.defineScript('cool-down', COOL_DOWN);
  return {
    async find(keyId) {
      const [wait = 0, more = 0, isBan] = (await run([nameOf(keyId)], [0, 0])) ?? [];
      if (wait <= 0) return undefined;
      const until = monotonicNow() + wait;
      return { until, retryAt: until + more, code: isBan ? 'key_banned' : 'rate_limited' };
    },
    share(keyId, { until, retryAt, code }) {
      const more = code === 'key_banned' ? 'ban' : Math.round(retryAt - until);
      void run([nameOf(keyId)], [Math.ceil(until - monotonicNow()), more]);
    },
  };
}

/**
 * Finds or starts the cooldown of a key. Of two cooldowns, the one with the longer wait counts. Times are in
 * milliseconds.
 *
 * KEYS: `ban`, or how long after the wait the upstream will serve the key. It expires when the wait is over.
 * ARGV: the wait to start, or 0 to find one; what KEYS says.
 * Reply: the wait; the time after it until the upstream will serve the key; 1 for a ban.
 */
const COOL_DOWN = `
local wait, left = tonumber(ARGV[1]), redis.call('PTTL', KEYS[1])
if wait > math.max(left, 0) then
  redis.call('SET', KEYS[1], ARGV[2], 'PX', wait)
  left = wait
end
local value = redis.call('GET', KEYS[1])
return {left, tonumber(value) or 0, value == 'ban' and 1 or 0}
`;
