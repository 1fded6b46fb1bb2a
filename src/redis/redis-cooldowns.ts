import { createBoundedCache } from '../bounded-cache.js';
import { monotonicNow } from '../clock.js';
import type { Cooldown } from '../access/cooldown.js';
import { createScript, type RedisLink } from './redis-link.js';

export type SharedCooldowns = ReturnType<typeof createRedisCooldowns>;

/** The most cooldowns that a gateway keeps, to share them again after an outage. Redis may then be empty. */
const CAPACITY = 10_000;

/**
 * Finds the cooldown of a key, or starts one. If there is one already, the longer wait counts, and a ban stays a ban.
 *
 * KEYS: the cooldown. ARGV: the number of the call; the wait to start in milliseconds, or 0 to only read; how much
 * later the upstream will serve the key, in milliseconds; 1 for a ban, otherwise 0. Reply: the number of the call; the
 * rest of the wait, or 0; how much later; 1 for a ban, otherwise 0.
 */
const COOL_DOWN = `
local wait, value = math.max(redis.call('PTTL', KEYS[1]), 0), redis.call('GET', KEYS[1]) or ''
local ban, later = value == 'ban', tonumber(value:match('%d+')) or 0
if tonumber(ARGV[2]) > 0 then
  wait, later = math.max(wait, tonumber(ARGV[2])), math.max(later, tonumber(ARGV[3]))
  ban = ban or ARGV[4] == '1'
  redis.call('SET', KEYS[1], ban and 'ban' or 'limit ' .. later, 'PX', wait)
end
return {tonumber(ARGV[1]), wait, later, ban and 1 or 0}
`;

/** Creates the cooldowns that all gateways with the same Redis share. During an outage, each gateway has its own. */
export function createRedisCooldowns(link: RedisLink) {
  const script = createScript(link, 'cool-down', COOL_DOWN);
  const shared = createBoundedCache<Cooldown>(CAPACITY);
  link.onUp(() => void sendAgain());

  return {
    /** Finds the cooldown of a key that any gateway has shared. */
    find: (keyId: string) => run(keyId, [0, 0, 0]),
    /** Shares a cooldown with the other gateways, without waiting for them. */
    share(keyId: string, cooldown: Cooldown): void {
      shared.set(keyId, cooldown);
      void send(keyId);
    },
  };

  /** Sends all cooldowns after an outage, one by one. If the link fails meanwhile, the next call begins again. */
  async function sendAgain(): Promise<void> {
    for (const keyId of [...shared.keys()]) {
      if (link.isUp) await send(keyId);
    }
  }

  async function send(keyId: string): Promise<void> {
    const cooldown = shared.peek(keyId);
    const wait = cooldown ? cooldown.until - monotonicNow() : 0;
    if (!cooldown || wait <= 0) shared.delete(keyId);
    else await run(keyId, [wait, cooldown.retryAt - cooldown.until, cooldown.code === 'key_banned' ? 1 : 0]);
  }

  async function run(keyId: string, argv: readonly number[]): Promise<Cooldown | undefined> {
    const reply = await script([`animals:proxy:cooldown:{${keyId}}`], argv.map(Math.ceil));
    const [left = 0, later = 0, ban] = reply ?? [];
    const until = monotonicNow() + left;
    return left > 0 ? { until, retryAt: until + later, code: ban === 1 ? 'key_banned' : 'rate_limited' } : undefined;
  }
}
