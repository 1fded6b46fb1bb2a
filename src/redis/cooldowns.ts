import type { Cooldown, Cooldowns } from '../access/cooldown.js';
import { createBoundedCache } from '../bounded-cache.js';
import { monotonicNow } from '../clock.js';
import type { RedisClient } from './client.js';

/** Cooldowns that are kept, to share them again after an outage. */
const CAPACITY = 10_000;

/** Creates the cooldowns that all gateways with the same Redis share. In an outage, each has its own. */
export function createRedisCooldowns(client: RedisClient, nameOf: (keyId: string) => string): Cooldowns {
  const script = client.defineScript('cool-down', COOL_DOWN);
  const run = (keyId: string, wait: number, more: number | 'ban' = 0) => script([nameOf(keyId)], [wait, more]);
  const known = createBoundedCache<Cooldown>(CAPACITY);
  client.onUp(async () => {
    for (const [keyId, cooldown] of [...known]) if (client.isUp) await send(keyId, cooldown);
  });

  return {
    async find(keyId) {
      const [left = 0, more = 0, isBan] = (await run(keyId, 0)) ?? [];
      if (left <= 0) return undefined;
      const retryAt = monotonicNow() + left;
      const cooldown = { until: retryAt - more, retryAt, code: isBan ? 'key_banned' : 'rate_limited' } as const;
      known.set(keyId, cooldown);
      return cooldown;
    },
    share(keyId, cooldown) {
      known.set(keyId, cooldown);
      void send(keyId, cooldown);
    },
    end(keyId) {
      if ((known.peek(keyId)?.until ?? Infinity) > monotonicNow()) return;
      known.delete(keyId);
      void run(keyId, -1);
    },
  };

  async function send(keyId: string, { until, retryAt, code }: Cooldown): Promise<void> {
    const wait = Math.ceil(until - monotonicNow());
    if (wait > 0) await run(keyId, wait, code === 'key_banned' ? 'ban' : Math.round(retryAt - until));
  }
}

/**
 * Finds, starts or ends the cooldown of a key. Of two cooldowns, the one with the longer wait counts. Times are in
 * milliseconds.
 *
 * KEYS: `ban`, or how long after the wait the upstream will serve the key. It expires then.
 * ARGV: the wait to start, 0 to find one, or -1 to end one whose wait is over; what KEYS says.
 * Reply: the time until the upstream will serve the key; how much of it comes after the wait; 1 for a ban.
 */
const COOL_DOWN = `
local left, value = redis.call('PTTL', KEYS[1]), redis.call('GET', KEYS[1])
local more, wait = tonumber(value) or 0, tonumber(ARGV[1])
if wait < 0 then
  if left <= more then redis.call('DEL', KEYS[1]) end
elseif wait > 0 and wait > left - more then
  redis.call('SET', KEYS[1], ARGV[2], 'PX', wait + (tonumber(ARGV[2]) or 0))
end
return {left, more, value == 'ban' and 1 or 0}
`;
