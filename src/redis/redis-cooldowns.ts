import { createBoundedCache } from '../bounded-cache.js';
import { monotonicNow } from '../clock.js';
import type { Span } from '../observability/tracing.js';
import type { Cooldown, SharedCooldowns } from '../proxy/cooldown.js';
import { RedisUnavailableError, type RedisLink } from './redis-link.js';
import { createScript } from './redis-script.js';

/** The most cooldowns that a gateway keeps, to share them again after an outage. Redis may then be empty. */
const CAPACITY = 10_000;

/**
 * Finds the cooldown of a key, or starts one. If there is one already, the longer wait counts, and a ban stays a ban.
 *
 * KEYS: the cooldown. ARGV: the number of the call; the wait to start in milliseconds, or 0 to only read; 1 for a ban,
 * otherwise 0. Reply: the number of the call; the rest of the wait in milliseconds, or 0; 1 for a ban, otherwise 0.
 */
const COOL_DOWN = `
local wait, ban = math.max(redis.call('PTTL', KEYS[1]), 0), redis.call('GET', KEYS[1]) == 'ban'
if tonumber(ARGV[2]) > 0 then
  wait, ban = math.max(wait, tonumber(ARGV[2])), ban or ARGV[3] == '1'
  redis.call('SET', KEYS[1], ban and 'ban' or 'limit', 'PX', wait)
end
return {tonumber(ARGV[1]), wait, ban and 1 or 0}
`;

/** Creates the cooldowns that all gateways with the same Redis share. During an outage, each gateway has its own. */
export function createRedisCooldowns(link: RedisLink): SharedCooldowns {
  const script = createScript(link, 'cool-down', COOL_DOWN);
  const shared = createBoundedCache<Cooldown>(CAPACITY);

  link.onUp(() => {
    for (const [keyId, cooldown] of shared) void send(keyId, cooldown);
  });

  return {
    find: (keyId, span) => (link.isUp ? run(keyId, 0, false, span) : undefined),
    share(keyId, cooldown) {
      shared.set(keyId, cooldown);
      void send(keyId, cooldown);
    },
  };

  async function send(keyId: string, { until, code }: Cooldown): Promise<void> {
    const milliseconds = until - monotonicNow();
    if (milliseconds <= 0) shared.delete(keyId);
    else await run(keyId, Math.ceil(milliseconds), code === 'key_banned');
  }

  async function run(keyId: string, milliseconds: number, isBan: boolean, span?: Span): Promise<Cooldown | undefined> {
    try {
      const [left = 0, ban] = await script([`animals:proxy:cooldown:{${keyId}}`], [milliseconds, isBan ? 1 : 0], span);
      return left > 0 ? { until: monotonicNow() + left, code: ban === 1 ? 'key_banned' : 'rate_limited' } : undefined;
    } catch (error) {
      if (error instanceof RedisUnavailableError) return undefined;
      throw error;
    }
  }
}
