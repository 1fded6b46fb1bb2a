import type { Cooldown, Cooldowns } from '../access/cooldown.js';
import { createBoundedCache } from '../bounded-cache.js';
import { monotonicNow } from '../clock.js';
import type { RedisClient } from './client.js';

/** The most cooldowns that are kept, to share them again after an outage. */
const CAPACITY = 10_000;
/** How long the other gateways wait for the one that tries a key. */
const TRIAL_MS = 5_000;

/** Creates the cooldowns that all gateways with the same Redis share. During an outage, each gateway has its own. */
export function createRedisCooldowns(client: RedisClient): Cooldowns {
  const script = client.defineScript('cool-down', COOL_DOWN);
  const run = (keyId: string, ...args: number[]) => script([`animals:proxy:cooldown:{${keyId}}`], args);
  const shared = createBoundedCache<Cooldown>(CAPACITY);
  client.onUp(async () => {
    for (const [keyId, cooldown] of [...shared]) if (client.isUp) await send(keyId, cooldown);
  });

  return {
    async find(keyId) {
      const [wait = 0, left = 0, isBan] = (await run(keyId, 0, 0, 0)) ?? [];
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
      void run(keyId, -1, 0, 0);
    },
  };

  async function send(keyId: string, { until, retryAt, code }: Cooldown): Promise<void> {
    const now = monotonicNow();
    const left = Math.ceil(retryAt - now);
    if (left <= 0) shared.delete(keyId);
    else await run(keyId, Math.max(1, Math.ceil(until - now)), left, code === 'key_banned' ? 1 : 0);
  }
}

/**
 * Finds the cooldown of a key, starts or prolongs one, or ends it. After the wait, the first caller may try the key, and
 * the others wait for the result. Times are in milliseconds.
 *
 * KEYS: `ban` or `limit`, and the end of the wait. It expires when the upstream will serve the key.
 * ARGV: the wait to start, 0 to find one, or -1 to end it; how long until the upstream will serve the key; 1 for a ban.
 * Reply: the rest of the wait; how long until the upstream will serve the key; 1 for a ban.
 */
const COOL_DOWN = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local wait, code, ends = tonumber(ARGV[1]), string.match(redis.call('GET', KEYS[1]) or '', '^(%a+) (%d+)$')
local left = math.max(redis.call('PTTL', KEYS[1]), 0)
ends = math.min(tonumber(ends or 0), now + left)
local rest = math.max(ends - now, 0)
if wait < 0 then
  redis.call('DEL', KEYS[1])
elseif wait > 0 then
  rest, left = math.max(rest, wait), math.max(left, tonumber(ARGV[2]))
  if ARGV[3] == '1' then code = 'ban' end
  redis.call('SET', KEYS[1], (code or 'limit') .. ' ' .. now + rest, 'PX', left)
elseif left > 0 and rest == 0 then
  redis.call('SET', KEYS[1], code .. ' ' .. now + ${TRIAL_MS}, 'PX', left)
end
return {rest, left, code == 'ban' and 1 or 0}
`;
