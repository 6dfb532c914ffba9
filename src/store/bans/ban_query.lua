--[[ Tell whether a limit and one of several keys have a ban or an exemption: the first that holds.

KEYS   the hash of bans
ARGV   1 the name of the limit
       2 the hashes of the keys, 32 digits each
Reply  1 what there is: 0 nothing, 1 a ban, 2 an exemption, 2 + N the ban number N that the limit
         has set of this key
       2 how long it holds (ms) ]]
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for i = 1, #ARGV[2], 32 do
  local field = ARGV[1] .. ':' .. string.sub(ARGV[2], i, i + 31)
  local value = redis.call('HGET', KEYS[1], field) or ''
  local kind, ends = string.match(value, '^(%a+) (%d+) ')
  local left = tonumber(ends or '0') - now
  if left > 0 and (kind == 'ban' or kind == 'exempt') then
    local strike = string.match(value, '^ban %d+ %d+ policy .* strike (%d+)$')
    return {strike and strike + 2 or kind == 'ban' and 1 or 2, left}
  end
end
return {0, 0}
