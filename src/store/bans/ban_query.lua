--[[ Tell whether a limit and a key have a ban or an exemption.

KEYS   the hash of bans
ARGV   1 the field
Reply  1 what there is: 0 nothing, 1 a ban, 2 an exemption
       2 how long it holds (ms) ]]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local kind, ends = string.match(redis.call('HGET', KEYS[1], ARGV[1]) or '', '^(%a+) (%d+) ')
local left = tonumber(ends or '0') - now
if left <= 0 or kind == 'lifted' then
  return {0, 0}
end
return {kind == 'ban' and 1 or kind == 'exempt' and 2 or 0, left}
