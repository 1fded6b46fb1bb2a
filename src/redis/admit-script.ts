/**
 * Admission in one step, the same as in memory-ledger.ts, by the clock of Redis.
 *
 * KEYS: the counts of the account (a hash), and the times of its last refusals (a list).
 * ARGV: the call's number; the cost; refusals within a minute above which it is banned, or -1; how long a ban lasts, in
 * milliseconds; what the caller knows of a ban; and for each window its name, length in milliseconds, limit, and what the
 * caller knows of its count and its end. Times are in milliseconds since the epoch, 0 for none.
 * Reply: the call's number; the outcome, 0 admitted, 1 refused, 2 banned, 3 too large; the time; the end of the ban; and
 * for each window its count and its end.
 *
 * What the caller knows matters when Redis has lost it, or when the caller went on counting by itself: the larger count
 * of a window and the later ban are taken, so that nothing is counted twice however often it is told.
 */
export const ADMIT = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local cost, banAfter, banMs = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local knownBan = math.min(tonumber(ARGV[5]), now + banMs)
local count = (#ARGV - 5) / 5
local fields, lengths, limits = {'banned'}, {}, {}
for i = 1, count do
  local name, at = ARGV[5 * i + 1], 5 * i
  fields[2 * i], fields[2 * i + 1] = name .. '.used', name .. '.closes'
  lengths[i], limits[i] = tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3])
end
local stored = redis.call('HMGET', KEYS[1], unpack(fields))
local changed = false

local banned = tonumber(stored[1] or 0)
if knownBan > now and knownBan > banned then banned, changed = knownBan, true end
local used, closes, full, largest = {}, {}, false, nil
for i = 1, count do
  used[i], closes[i] = tonumber(stored[2 * i] or 0), tonumber(stored[2 * i + 1] or 0)
  if closes[i] <= now then used[i], closes[i] = 0, 0 end
  local knownUsed, knownCloses = tonumber(ARGV[5 * i + 4]), tonumber(ARGV[5 * i + 5])
  if knownCloses > now and knownUsed > used[i] then
    used[i], changed = knownUsed, true
    if closes[i] == 0 then closes[i] = knownCloses end
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
    if banAfter == 0 or (oldest and tonumber(oldest) > now - 60000) then
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
