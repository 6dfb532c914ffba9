--[[ Read some of the bans and exemptions, the id of the hash's life, and the time.

KEYS   the hash of bans
ARGV   1 where a scan of all goes on; empty: one field is wanted
       2 which
       3 until when (ms) it is set to 4 where it is not there; empty: it is not set
Reply  1, 2 TIME
       3 where the scan goes on; 0: it is over
       4 fields, each with its value behind it; of a field that is wanted and is not there an empty
         one ]]
local time = redis.call('TIME')
if ARGV[1] ~= '' then
  local page = redis.call('HSCAN', KEYS[1], ARGV[1], 'COUNT', 200)
  return {time[1], time[2], page[1], page[2]}
end
local function note_change()
  local before = redis.call('HGET', KEYS[1], 'version') or ''
  local number = tonumber(string.match(before, ' (%d+)$') or '0') + 1
  local life = redis.call('HGET', KEYS[1], 'id') or ''
  redis.call('HSET', KEYS[1], 'version', string.format('%s %.0f', life, number))
end
local value = redis.call('HGET', KEYS[1], ARGV[2])
if ARGV[3] ~= '' and not value then
  local left = tonumber(ARGV[3]) - time[1] * 1000 - math.floor(time[2] / 1000)
  if left > 0 then
    value = ARGV[4]
    if redis.call('HEXISTS', KEYS[1], 'id') == 0 then
      redis.call('HSET', KEYS[1], 'id', time[1] .. '.' .. time[2])
    end
    redis.call('HSET', KEYS[1], ARGV[2], value)
    note_change()
    if redis.call('PTTL', KEYS[1]) < left then
      redis.call('PEXPIRE', KEYS[1], left)
    end
  end
end
local id = redis.call('HGET', KEYS[1], 'id')
return {time[1], time[2], '0', {'id', id or '', ARGV[2], value or ''}}
