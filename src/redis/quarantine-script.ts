/**
 * Finds a quarantine, or enters one: the longer wait counts, and a ban is not forgotten for a mere limit.
 *
 * KEYS: the quarantine of the key. ARGV: the call's number; the wait to enter in milliseconds, or 0; whether it is a ban.
 * Reply: the call's number; what is left of the wait in milliseconds, or 0; 1 for a ban, else 0.
 */
export const QUARANTINE = `
local wait, ban = math.max(redis.call('PTTL', KEYS[1]), 0), redis.call('GET', KEYS[1]) == 'ban'
if tonumber(ARGV[2]) > 0 then
  wait, ban = math.max(wait, tonumber(ARGV[2])), ban or ARGV[3] == '1'
  redis.call('SET', KEYS[1], ban and 'ban' or 'limit', 'PX', wait)
end
return {tonumber(ARGV[1]), wait, ban and 1 or 0}
`;
