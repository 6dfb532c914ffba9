--[[ Set or remove the plan of a tenant, and tell all processes.

KEYS   the hash of tenants
ARGV   1 the channel
       2 the field
       3 another field that names the same key, or empty: it is removed
       4 the plan; empty: what there is is removed
       5 until when (ms since the epoch); 0: for so long:
       6 how long (ms); 0: for ever
       7 who
Reply  1 until when (ms); 0: for ever; -1: there was none to remove, -2: it would be over
       2 now (ms) ]]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function tell(field)
  local before = tonumber(redis.call('HGET', KEYS[1], 'version') or '') or now
  local version = string.format('%.0f', before + 1)
  redis.call('HSET', KEYS[1], 'version', version)
  redis.call('PUBLISH', ARGV[1], 'tenant ' .. version .. ' ' .. field)
end
local till = tonumber(ARGV[5])
if till == 0 and tonumber(ARGV[6]) > 0 then
  till = now + tonumber(ARGV[6])
end
if ARGV[4] ~= '' and till > 0 and till <= now then
  return {-2, now}
end
local n = 0
if ARGV[3] ~= '' and redis.call('HDEL', KEYS[1], ARGV[3]) == 1 then
  n = 1
  tell(ARGV[3])
end
if ARGV[4] == '' then
  n = n + redis.call('HDEL', KEYS[1], ARGV[2])
  if n == 0 then
    return {-1, now}
  end
else
  redis.call('HSET', KEYS[1], ARGV[2],
             string.format('%s %.0f %.0f %s', ARGV[4], till, now, ARGV[7]))
end
tell(ARGV[2])
return {till, now}
