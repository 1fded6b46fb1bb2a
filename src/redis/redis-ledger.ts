import { hash } from 'node:crypto';
import type { Account, Admission, Ledger } from '../access/ledger.js';
import { banned, findLargestCost, refused, view, type MemoryLedger } from '../access/memory-ledger.js';
import { monotonicNow } from '../clock.js';
import { createScript, type RedisLink } from './redis-link.js';

/** A smaller change in the difference between the clocks is ignored, so that the end of a window does not move. */
const CLOCK_TOLERANCE_MS = 1_000;

/** Names a client address in Redis, as a hash: Redis should not hold personal data that counting does not need. */
export function nameAddress(prefix: string, address: string): string {
  return `${prefix}{${hash('sha256', address, 'base64url').slice(0, 22)}}`;
}

/**
 * Returns a ledger that all processes with the same Redis share. During an outage, each process counts alone.
 * @param link - without it, the ledger is the local one
 * @param local - counts while Redis is unavailable. It adopts the counts of each reply, so it continues from the last
 * shared counts that this process received.
 * @param nameOf - returns the Redis key of an account; each ledger needs its own key names
 * @param bans - those of the local ledger; without them, nobody is banned
 */
export function shareLedger(
  link: RedisLink | undefined,
  local: MemoryLedger,
  nameOf: (accountId: string) => string,
  { banAfter = Infinity, banSeconds = 0 } = {},
): Ledger {
  if (!link) return local;
  const admitByScript = createScript(link, 'admit', ADMIT);
  const bans = [banAfter === Infinity ? -1 : banAfter, banSeconds * 1_000];
  /** How far the clock of Redis is ahead of `monotonicNow`, in milliseconds. */
  let ahead = 0;

  return {
    findBan: (account) => local.findBan(account),
    admit: (account, cost) => (link.isUp ? askRedis(account, cost) : local.admit(account, cost)),
  };

  async function askRedis(account: Account, cost: number): Promise<Admission> {
    const known = local.find(account.id);
    const sentAt = monotonicNow();
    const left = (time = 0): number => Math.max(0, Math.round(time - sentAt));
    const windows = account.windows.flatMap(({ name, seconds, limit }, i) => [
      name,
      seconds * 1_000,
      limit,
      known?.used[i] ?? 0,
      left(known?.closesAt[i]),
    ]);
    const key = nameOf(account.id);
    const unbannedAgo = Math.round(sentAt - (account.unbannedAt ?? 0));
    const reply = await admitByScript(
      [key, `${key}:refused`],
      [cost, ...bans, left(known?.bannedUntil), unbannedAgo, ...windows],
    );
    return reply ? settle(account, cost, reply) : local.admit(account, cost);
  }

  function settle(account: Account, cost: number, reply: readonly number[]): Admission {
    const [outcome, time = 0, bannedUntil = 0, ...rest] = reply;
    const difference = time - monotonicNow();
    if (Math.abs(difference - ahead) > CLOCK_TOLERANCE_MS) ahead = difference;
    const counts = {
      used: account.windows.map((_, i) => rest[2 * i] as number),
      closesAt: account.windows.map((_, i) => toOurs(rest[2 * i + 1] as number)),
      bannedUntil: toOurs(bannedUntil),
    };
    local.adopt(account, counts);
    const now = toOurs(time);
    const windows = view(account, counts, now);
    if (outcome === 0) return { outcome: 'admitted', windows };
    if (outcome === 1) return refused(windows, cost, now);
    if (outcome === 2) return banned(counts, windows, now);
    return { outcome: 'too-large', windows, limit: findLargestCost(account) };
  }

  function toOurs(time: number): number {
    return time && time - ahead;
  }
}

/**
 * Admits or refuses in one atomic step, like memory-ledger.ts, by the clock of Redis.
 *
 * KEYS: the counts of the account (a hash) and the times of its last refusals (a list).
 *
 * ARGV: the number of the call; the cost; the refusals within a minute above which the account is banned, or -1; the
 * length of a ban; what is left of the ban that the caller knows; how long ago bans were lifted; and for each window:
 * name, length, limit, and the count and what is left of the window that the caller knows. Lengths are in milliseconds.
 *
 * Reply: the number of the call; the outcome (0 admitted, 1 refused, 2 banned, 3 too large); the time; the end of the
 * ban; and for each window its count and end. Times are milliseconds since the epoch, or 0 for none.
 *
 * The caller's own counts matter if Redis has lost its data, or if the caller counted alone during an outage. The
 * script uses the larger count of each window and the later end of the ban, so a caller may send the same counts
 * repeatedly.
 *
 * If the clock of Redis steps, what the caller has left of a window is right, because it measures with a clock that
 * never steps. What no caller knows lasts for its length at most.
 */
const ADMIT = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local cost, banAfter, banMs = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local knownBan, unbanned = now + math.min(tonumber(ARGV[5]), banMs), now - tonumber(ARGV[6])
local count = (#ARGV - 6) / 5
local fields, lengths, limits = {'banned'}, {}, {}
for i = 1, count do
  local at = 5 * i + 1
  local name = ARGV[at + 1]
  fields[2 * i], fields[2 * i + 1] = name .. '.used', name .. '.closes'
  lengths[i], limits[i] = tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
end
local stored = redis.call('HMGET', KEYS[1], unpack(fields))
local changed = false

local banned = math.min(tonumber(stored[1] or 0), now + banMs)
if knownBan > now and knownBan > banned then banned, changed = knownBan, true end
if banned > now and banned - banMs < unbanned then
  redis.call('HDEL', KEYS[1], 'banned')
  banned, changed = 0, false
end
local used, closes, full, largest = {}, {}, false, nil
for i = 1, count do
  used[i], closes[i] = tonumber(stored[2 * i] or 0), tonumber(stored[2 * i + 1] or 0)
  if closes[i] <= now then used[i], closes[i] = 0, 0 end
  local knownUsed, left = tonumber(ARGV[5 * i + 5]), tonumber(ARGV[5 * i + 6])
  if left > 0 and knownUsed > 0 and knownUsed >= used[i] then
    if knownUsed > used[i] then used[i], changed = knownUsed, true end
    if closes[i] == 0 or closes[i] - now - left > 2000 then closes[i], changed = now + left, true end
  end
  closes[i] = math.min(closes[i], now + lengths[i])
  if used[i] + cost > limits[i] then full = true end
  if not largest or limits[i] < largest then largest = limits[i] end
end

local outcome = 0
if banned > now then outcome = 2
elseif cost == 0 then outcome = 0
elseif cost > largest then outcome = 3
elseif full then
  outcome = 1
  if banAfter >= 0 then
    local oldest = banAfter > 0 and redis.call('LLEN', KEYS[2]) >= banAfter and redis.call('LINDEX', KEYS[2], 0)
    if banAfter == 0 or (oldest and tonumber(oldest) > now - 60000 and tonumber(oldest) <= now) then
      outcome, banned, changed = 2, now + banMs, true
      redis.call('DEL', KEYS[2])
    else
      redis.call('RPUSH', KEYS[2], now)
      redis.call('LTRIM', KEYS[2], -banAfter, -1)
      redis.call('PEXPIRE', KEYS[2], 60000)
    end
  end
else
  changed = true
  for i = 1, count do
    if closes[i] == 0 then closes[i] = now + lengths[i] end
    used[i] = used[i] + cost
  end
end

local values, last = {}, banned
if banned > now then values = {'banned', banned} end
local reply = {tonumber(ARGV[1]), outcome, now, banned}
for i = 1, count do
  if closes[i] > now then
    values[#values + 1], values[#values + 2] = fields[2 * i], used[i]
    values[#values + 1], values[#values + 2] = fields[2 * i + 1], closes[i]
    last = math.max(last, closes[i])
  end
  reply[#reply + 1], reply[#reply + 2] = used[i], closes[i]
end
if changed then
  redis.call('HSET', KEYS[1], unpack(values))
  redis.call('PEXPIREAT', KEYS[1], last)
end
return reply
`;
