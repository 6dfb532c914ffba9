--[[ Delete the state of one limit and key, and notify all processes.

KEYS   the state; of a limit by redis-cell also the state that it keeps
ARGV   1 the channel
       2 the message to publish there
Reply  how many of them there were ]]
local n = redis.call('UNLINK', unpack(KEYS))
redis.call('PUBLISH', ARGV[1], ARGV[2])
return n
