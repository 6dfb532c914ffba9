--[[ Enter a proxy in the registry of the instances that use this Redis, remove those whose
heartbeat is overdue, and count.

KEYS   the instance registry: a sorted set of instance ids, scored by their last heartbeats (ms)
ARGV   1 the id of this instance
       2 how long one stays without another heartbeat (ms)
Reply  how many there are ]]
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
-- First, so that the key is never gone: a node of a cluster that gives its slot away would not make
-- it again.
redis.call('ZADD', KEYS[1], now_ms, ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now_ms - ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[1], now_ms + ARGV[2], '+inf') -- the clock was set back
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return redis.call('ZCARD', KEYS[1])
