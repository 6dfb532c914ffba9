--[[ Forget what was counted of one limit and key, and tell all processes.

KEYS   the state, and what redis-cell keeps in its place
ARGV   1 the channel
       2 what is told there
Reply  how many of the two there were ]]
local n = redis.call('UNLINK', KEYS[1], KEYS[2])
redis.call('PUBLISH', ARGV[1], ARGV[2])
return n
