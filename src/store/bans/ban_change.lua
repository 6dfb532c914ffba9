--[[ Set or lift a ban or an exemption, and tell all processes. What is lifted leaves a word until
it would have ended, so that no process that missed it sets it again; the field "id" tells one life
of the hash from another, the field "version" is a number that each change increments.

KEYS   the hash of bans
ARGV   1 the channel
       2 the field
       3 what it is: ban or exempt
       4 until when (ms since the epoch); 0: for so long:
       5 how long (ms)
       6 the rest of the value
       7 how many there may be; empty: what there is of that kind is lifted
Reply  1 until when (ms); -1: there was none to lift, -2: it would be over, -3: there are too many
       2 now (ms) ]]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function tell()
  local before = tonumber(redis.call('HGET', KEYS[1], 'version') or '') or now
  local version = string.format('%.0f', before + 1)
  redis.call('HSET', KEYS[1], 'version', version)
  redis.call('PUBLISH', ARGV[1], 'ban ' .. version .. ' ' .. ARGV[2])
end
if ARGV[7] == '' then
  local value = redis.call('HGET', KEYS[1], ARGV[2])
  local kind, ends = string.match(value or '', '^(%a+) (%d+) ')
  if kind ~= ARGV[3] then
    return {-1, now}
  end
  if tonumber(ends) <= now then
    redis.call('HDEL', KEYS[1], ARGV[2])
    return {-1, now}
  end
  redis.call('HSET', KEYS[1], ARGV[2], string.format('lifted %s %.0f', ends, now))
  tell()
  return {now, now}
end
local till = tonumber(ARGV[4])
if till == 0 then
  till = now + tonumber(ARGV[5])
end
if till <= now then
  return {-2, now}
end
if redis.call('HEXISTS', KEYS[1], 'id') == 0 then
  redis.call('HSET', KEYS[1], 'id', time[1] .. '.' .. time[2])
end
local max = tonumber(ARGV[7]) + 1 + redis.call('HEXISTS', KEYS[1], 'version')
if redis.call('HLEN', KEYS[1]) >= max and redis.call('HEXISTS', KEYS[1], ARGV[2]) == 0 then
  local all = redis.call('HGETALL', KEYS[1])
  for i = 1, #all, 2 do
    local kind, ends = string.match(all[i + 1], '^(%a+) (%d+) ')
    if kind == 'lifted' or ends and tonumber(ends) <= now then
      redis.call('HDEL', KEYS[1], all[i])
    end
  end
  if redis.call('HLEN', KEYS[1]) >= max then
    return {-3, now}
  end
end
redis.call('HSET', KEYS[1], ARGV[2], string.format('%s %.0f %.0f %s', ARGV[3], till, now, ARGV[6]))
if redis.call('PTTL', KEYS[1]) < till - now then -- none yet, too: it ends with the last of them
  redis.call('PEXPIRE', KEYS[1], till - now)
end
tell()
return {till, now}
