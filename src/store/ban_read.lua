--[[ Read some of the bans and exemptions, and the time.

KEYS   the hash of bans
ARGV   1 where a scan of all goes on; empty: one field is wanted
       2 which
Reply  1, 2 TIME
       3 where the scan goes on; 0: it is over
       4 fields, each with its value behind it; of a field that is wanted and is not there an empty one ]]
local time = redis.call('TIME')
if ARGV[1] == '' then
  return {time[1], time[2], '0', {ARGV[2], redis.call('HGET', KEYS[1], ARGV[2]) or ''}}
end
local page = redis.call('HSCAN', KEYS[1], ARGV[1], 'COUNT', 200)
return {time[1], time[2], page[1], page[2]}
