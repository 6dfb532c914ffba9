-- A token bucket in Redis, as one writes it by hand for nginx and Lua.
-- KEYS[1]  the bucket: a hash of `tokens` and `at` (microseconds)
-- ARGV     rate (tokens a second), burst (tokens)
-- Returns  1 allowed, 0 denied
local rate, burst = tonumber(ARGV[1]), tonumber(ARGV[2])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

local state = redis.call('HMGET', KEYS[1], 'tokens', 'at')
local tokens, at = tonumber(state[1]) or burst, tonumber(state[2]) or now
tokens = math.min(burst, tokens + math.max(0, now - at) * rate / 1000000)
if tokens < 1 then
    return 0
end

redis.call('HSET', KEYS[1], 'tokens', string.format('%.6f', tokens - 1),
           'at', string.format('%.0f', now))
redis.call('PEXPIRE', KEYS[1], math.ceil(burst / rate * 1000) + 1000)
return 1
