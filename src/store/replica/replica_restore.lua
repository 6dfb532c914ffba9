--[[ Set a record that the hash has lost, unless there is another one of its field.

KEYS   the hash
ARGV   1 the field
       2 its value
       3 until when (ms since the epoch)
Reply  as that of a reading of the field ]]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local left = tonumber(ARGV[3]) - now
local value = redis.call('HGET', KEYS[1], ARGV[1])
if left > 0 and not value then
  local before = tonumber(redis.call('HGET', KEYS[1], 'version') or '') or now
  value = ARGV[2]
  if redis.call('HEXISTS', KEYS[1], 'id') == 0 then
    redis.call('HSET', KEYS[1], 'id', time[1] .. '.' .. time[2])
  end
  redis.call('HSET', KEYS[1], ARGV[1], value)
  redis.call('HSET', KEYS[1], 'version', string.format('%.0f', before + 1))
  if redis.call('PTTL', KEYS[1]) < left then
    redis.call('PEXPIRE', KEYS[1], left)
  end
end
return {time[1], time[2], '0',
        {'id', redis.call('HGET', KEYS[1], 'id') or '', ARGV[1], value or ''}}
