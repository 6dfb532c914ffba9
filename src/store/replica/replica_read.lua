--[[ Read some records of a table, and the time.

KEYS   the hash
ARGV   1 where a scan of all goes on; empty: fields are wanted
       2 and on: which
Reply  1, 2 TIME
       3 where the scan goes on; 0: it is over
       4 fields, each with its value behind it: the id and those that are wanted, where one is not
         there with an empty one; of a scan the id and the version
       5 of a scan: some of the fields ]]
local time = redis.call('TIME')
local function get(field)
  return redis.call('HGET', KEYS[1], field) or ''
end
if ARGV[1] ~= '' then
  local head = {'id', get('id'), 'version', get('version')}
  local page = redis.call('HSCAN', KEYS[1], ARGV[1], 'COUNT', 1000)
  return {time[1], time[2], page[1], head, page[2]}
end
local fields = {'id', get('id')}
for i = 2, #ARGV do
  fields[2 * i - 1] = ARGV[i]
  fields[2 * i] = get(ARGV[i])
end
return {time[1], time[2], '0', fields}
