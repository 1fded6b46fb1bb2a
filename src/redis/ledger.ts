import { randomBytes } from 'node:crypto';
import type { Account, Admission, Ledger } from '../access/ledger.js';
import { banned, findLargestCost, refused, view, type Count, type MemoryLedger } from '../access/memory-ledger.js';
import { monotonicNow } from '../clock.js';
import type { RedisClient } from './client.js';

/** Smaller differences of the clocks are ignored, so that the end of a window does not move. */
const CLOCK_TOLERANCE_MS = 1_000;
/** Between two questions about a ban that is known, in milliseconds. */
const ASK_AGAIN_MS = 1_000;
/** A window so close to its end may be over when the call arrives. */
const LAST_MS = 2_000;

/**
 * Returns a ledger that all processes with the same Redis share. What Redis does not count in time, the local ledger
 * counts, and the next call for the account, or the end of the outage, adds it in Redis.
 * @param local - also keeps the last reply for each account
 */
export function shareLedger(
  client: RedisClient,
  local: MemoryLedger,
  nameOf: (accountId: string) => string,
  { banAfter = Infinity, banSeconds = 0 } = {},
): Ledger {
  const admit = client.defineScript('admit', ADMIT);
  const me = randomBytes(6).toString('base64url');
  /** How far the clock of Redis is ahead of `monotonicNow`, in milliseconds. */
  let ahead = 0;
  let outages = 0;
  const asked = new Set<string>();

  client.onUp(async () => {
    const outage = ++outages;
    for (const { account, counts, bannedUntil } of local.list()) {
      const now = monotonicNow();
      const isOpen = bannedUntil > now || counts.some(({ own, closesAt }) => own > 0 && closesAt > now);
      if (isOpen && client.isUp && outage === outages) await ask(account, 0);
    }
  });
  return {
    admit(account, cost) {
      if (!client.isUp) return local.admit(account, cost);
      return ask(account, cost).then((reply) => reply ?? local.admit(account, cost));
    },
    findBan(account) {
      const ban = local.findBan(account);
      // Redis may have lost the ban, and the request ends here.
      if (ban && !asked.has(account.id)) {
        asked.add(account.id);
        setTimeout(() => asked.delete(account.id), ASK_AGAIN_MS).unref();
        void ask(account, 0);
      }
      return ban;
    },
  };

  async function ask(account: Account, cost: number): Promise<Admission | undefined> {
    const { counts, bannedUntil } = local.find(account);
    const sentAt = monotonicNow();
    const left = (time: number): number => Math.max(0, Math.round(time - sentAt));
    const parts = ['ban', 'refused', ...account.windows.map(({ name }) => name)];
    const call = {
      me,
      // An operation that can never fit costs nothing here: the script only reports a ban.
      cost: cost > findLargestCost(account) ? 0 : cost,
      banAfter: banAfter === Infinity ? -1 : banAfter,
      banMs: banSeconds * 1_000,
      banLeft: left(bannedUntil),
      unbannedAgo: Math.round(sentAt - (account.unbannedAt ?? 0)),
      windows: account.windows.map(({ seconds, limit }, i) => {
        const { used, own, closesAt } = counts[i] as Count;
        return { length: seconds * 1_000, limit, used, own, left: left(closesAt - LAST_MS) && left(closesAt) };
      }),
    };
    const reply = await admit(
      parts.map((part) => `${nameOf(account.id)}:${part}`),
      [JSON.stringify(call)],
    );
    return reply && learn(account, cost, reply);
  }

  function learn(account: Account, cost: number, reply: readonly number[]): Admission {
    const [outcome, time = 0, ban = 0, ...shared] = reply;
    const difference = time - monotonicNow();
    if (Math.abs(difference - ahead) > CLOCK_TOLERANCE_MS) ahead = difference;
    const entry = local.find(account);
    entry.counts.forEach((count, i) => {
      const [used = 0, own = 0, closes = 0] = shared.slice(3 * i);
      const isNew = closes > count.closesAt + ahead + LAST_MS;
      // What was counted here since the call was sent, unless that was in the window before.
      const missing = isNew ? 0 : Math.max(0, count.own - own);
      count.used = used + missing;
      count.own = own + missing;
      if (closes) count.closesAt = closes - ahead;
    });
    entry.bannedUntil = ban && ban - ahead;
    local.keep(entry);
    const now = time - ahead;
    const windows = view(entry, now);
    if (outcome === 1) return refused(windows, cost, now);
    if (outcome === 2) return banned(windows, entry.bannedUntil, now);
    const limit = findLargestCost(account);
    return cost > limit ? { outcome: 'too-large', windows, limit } : { outcome: 'admitted', windows };
  }
}

/**
 * Admits or refuses like memory-ledger.ts, by the clock of Redis. Times are in milliseconds; 0 is none.
 *
 * KEYS: the end of the ban; the times of refusals (a list); and for each window a hash: `used`, `closes`, and the part
 * of each process.
 * ARGV: the `call` above, with what the caller knows. That may be more than Redis, which may have lost its data, or whose
 * clock may have stepped. The caller sends the sum of what it admitted (`own`), so nothing is counted twice if a script
 * has run and its reply was late.
 * A number in Redis that makes no sense counts as 0.
 * Reply: 0 admitted, 1 refused, 2 banned; the time; the end of the ban; for each window: used, the caller's part, the end.
 */
const ADMIT = `
local function count(text)
  local number = tonumber(text or 0)
  return number and number >= 0 and number < 2^53 and math.floor(number) or 0
end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local call = cjson.decode(ARGV[1])
local me, cost, banAfter, banMs = call.me, call.cost, call.banAfter, call.banMs

local stored, known = count(redis.call('GET', KEYS[1])), now + math.min(call.banLeft, banMs)
local ban = math.min(stored, now + banMs)
if known > now and known > ban + 2000 then ban = known end
if ban <= now or ban - banMs < now - call.unbannedAgo then ban = 0 end

local full = false
for i, window in ipairs(call.windows) do
  local key, left = KEYS[i + 2], window.left
  local fields = redis.call('HMGET', key, 'used', me, 'closes')
  local used, own, closes = count(fields[1]), count(fields[2]), count(fields[3])
  if closes <= now then
    redis.call('DEL', key)
    used, own, closes = 0, 0, 0
  end
  if left > 0 and (closes == 0 or closes - now - left > 2000) then closes, window.changed = now + left, true end
  if left > 0 and (window.own > own or used == 0) then
    local sum, all = window.own, redis.call('HGETALL', key)
    for j = 1, #all, 2 do
      if all[j] ~= 'used' and all[j] ~= 'closes' and all[j] ~= me then sum = sum + count(all[j + 1]) end
    end
    used, own, window.changed = math.max(used, window.used, sum), window.own, true
  end
  window.used, window.own, window.closes = used, own, math.min(closes, now + window.length)
  full = full or used + cost > window.limit
end

local outcome = 0
if ban > 0 then outcome = 2
elseif cost > 0 and full then
  outcome = 1
  local first = count(banAfter > 0 and redis.call('LINDEX', KEYS[2], -banAfter))
  if banAfter == 0 or (first > now - 60000 and first <= now) then
    outcome, ban = 2, now + banMs
    redis.call('DEL', KEYS[2])
  elseif banAfter > 0 then
    redis.call('RPUSH', KEYS[2], now)
    redis.call('LTRIM', KEYS[2], -banAfter, -1)
    redis.call('PEXPIRE', KEYS[2], 60000)
  end
end

if ban > 0 and ban ~= stored then redis.call('SET', KEYS[1], ban, 'PX', ban - now) end
if ban == 0 and stored > 0 then redis.call('DEL', KEYS[1]) end
local reply = {outcome, now, ban}
for i, window in ipairs(call.windows) do
  if outcome == 0 and cost > 0 then
    if window.closes == 0 then window.closes = now + window.length end
    window.used, window.own, window.changed = window.used + cost, window.own + cost, true
  end
  if window.changed then
    redis.call('HSET', KEYS[i + 2], 'used', window.used, me, window.own, 'closes', window.closes)
    redis.call('PEXPIREAT', KEYS[i + 2], window.closes)
  end
  reply[3 * i + 1], reply[3 * i + 2], reply[3 * i + 3] = window.used, window.own, window.closes
end
return reply
`;
