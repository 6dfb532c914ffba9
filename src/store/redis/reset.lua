--[[ Delete the state of one limit and key, and notify all processes.

KEYS   the state, and the state of the same key that redis-cell keeps
ARGV   1 the channel
       2 the message to publish there
Reply  how many of the two there were ]]
local n = redis.call('UNLINK', KEYS[1], KEYS[2])
redis.call('PUBLISH', ARGV[1], ARGV[2])
return n
