--[[ Ban a key for what it did, each time longer, and tell all processes. The number of its bans,
its strikes, stands at the end of the record, which stays after the ban has ended, until the strikes
are forgotten. A ban or an exemption that holds stays as it is.

KEYS   the hash of bans
ARGV   1 the channel
       2 the field
       3 the length of the first ban (ms), how many times longer each further one is, the longest
         (ms), and how long strikes are remembered after a ban (ms)
       4 the rest of the value, up to the number of the strike
       5 how many there may be for a further one
Reply  1 the number of the strike; -1: the key has a ban or an exemption, -3: there are too many
       2 how long the ban holds (ms) ]]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local first, factor, most, memory = string.match(ARGV[3], '^(%d+) (%d+) (%d+) (%d+)$')
local before = redis.call('HGET', KEYS[1], ARGV[2])
local kind, ends, by = string.match(before or '', '^(%a+) (%d+) %d+ (%S+) ')
local strike = 1
if (kind == 'ban' or kind == 'exempt') and tonumber(ends) > now then
  return {-1, 0}
end
if kind == 'ban' and by == 'policy' and now < tonumber(ends) + memory then
  strike = (tonumber(string.match(before, 'strike (%d+)$') or '') or 0) + 1
end
local length = tonumber(first)
for i = 2, strike do
  if length >= tonumber(most) or factor == '1' then
    break
  end
  length = length * factor
end
length = math.min(length, tonumber(most))
if redis.call('HEXISTS', KEYS[1], 'id') == 0 then
  redis.call('HSET', KEYS[1], 'id', time[1] .. '.' .. time[2])
end
local max = tonumber(ARGV[5]) + 1 + redis.call('HEXISTS', KEYS[1], 'version')
if not before and redis.call('HLEN', KEYS[1]) >= max then
  -- Look for some that have ended, from anywhere on and over the end to the start: in a table that
  -- is full each further ban comes here, and all of a large one take too long.
  local cursor = time[2]
  for _ = 1, 2 do
    local page = redis.call('HSCAN', KEYS[1], cursor, 'COUNT', 128)
    cursor = page[1]
    for i = 1, #page[2], 2 do
      local what, till = string.match(page[2][i + 1], '^(%a+) (%d+) ')
      if what == 'lifted' or till and tonumber(till) <= now then
        redis.call('HDEL', KEYS[1], page[2][i])
      end
    end
  end
  if redis.call('HLEN', KEYS[1]) >= max then
    return {-3, 0}
  end
end
redis.call('HSET', KEYS[1], ARGV[2],
           string.format('ban %.0f %.0f %s%.0f', now + length, now, ARGV[4], strike))
if redis.call('PTTL', KEYS[1]) < length + memory then -- none yet, too
  redis.call('PEXPIRE', KEYS[1], string.format('%.0f', length + memory))
end
local known = tonumber(redis.call('HGET', KEYS[1], 'version') or '') or now
local version = string.format('%.0f', known + 1)
redis.call('HSET', KEYS[1], 'version', version)
redis.call('PUBLISH', ARGV[1], 'ban ' .. version .. ' ' .. ARGV[2])
return {strike, length}
