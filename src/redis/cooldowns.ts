import type { Cooldown, Cooldowns } from '../access/cooldown.js';
import { createBoundedCache } from '../bounded-cache.js';
import { monotonicNow } from '../clock.js';
import type { RedisClient } from './client.js';

/** Cooldowns that are kept, to share them again after an outage. */
const CAPACITY = 10_000;
/** How long the other gateways wait for the one that tries a key. */
const TRIAL_MS = 5_000;

/** Creates the cooldowns that all gateways with the same Redis share. In an outage, each has its own. */
export function createRedisCooldowns(client: RedisClient, nameOf: (keyId: string) => string): Cooldowns {
  const script = client.defineScript('cool-down', COOL_DOWN);
  const run = (keyId: string, wait: number, left = 0, code = '') =>
    script([nameOf(keyId), `${nameOf(keyId)}:wait`], [wait, left, code]);
  const shared = createBoundedCache<Cooldown>(CAPACITY);
  client.onUp(async () => {
    for (const [keyId, cooldown] of [...shared]) if (client.isUp) await send(keyId, cooldown);
  });

  return {
    async find(keyId) {
      const [wait = 0, left = 0, isBan] = (await run(keyId, 0)) ?? [];
      const now = monotonicNow();
      if (left <= 0) return undefined;
      const cooldown = { until: now + wait, retryAt: now + left, code: isBan ? 'key_banned' : 'rate_limited' } as const;
      if (wait > 0) return cooldown;
      shared.set(keyId, cooldown);
      return undefined;
    },
    share(keyId, cooldown) {
      shared.set(keyId, cooldown);
      void send(keyId, cooldown);
    },
    end(keyId) {
      if ((shared.peek(keyId)?.until ?? Infinity) > monotonicNow()) return;
      shared.delete(keyId);
      void run(keyId, -1);
    },
  };

  async function send(keyId: string, { until, retryAt, code }: Cooldown): Promise<void> {
    const now = monotonicNow();
    const left = Math.ceil(retryAt - now);
    if (left <= 0) shared.delete(keyId);
    else await run(keyId, Math.max(1, Math.ceil(until - now)), left, code === 'key_banned' ? 'ban' : 'limit');
  }
}

/**
 * Finds, starts, prolongs or ends the cooldown of a key. After the wait, the first caller may try the key, and the others
 * wait for the result. Times are in milliseconds.
 *
 * KEYS: `ban` or `limit`, which expires when the upstream will serve the key; what expires at the end of the wait.
 * ARGV: the wait to start, 0 to find one, or -1 to end it; the time until the upstream will serve the key; the code.
 * Reply: the rest of the wait; the time until the upstream will serve the key; 1 for a ban.
 */
const COOL_DOWN = `
local wait, left = math.max(redis.call('PTTL', KEYS[2]), 0), math.max(redis.call('PTTL', KEYS[1]), 0)
local start, code = tonumber(ARGV[1]), redis.call('GET', KEYS[1])
if start < 0 then
  redis.call('DEL', KEYS[1], KEYS[2])
elseif start > 0 then
  wait, left = math.max(wait, start), math.max(left, tonumber(ARGV[2]))
  if code ~= 'ban' then code = ARGV[3] end
  redis.call('SET', KEYS[1], code, 'PX', left)
  redis.call('SET', KEYS[2], 1, 'PX', wait)
elseif left > 0 and wait == 0 then
  redis.call('SET', KEYS[2], 1, 'PX', ${TRIAL_MS})
end
return {wait, left, code == 'ban' and 1 or 0}
`;
