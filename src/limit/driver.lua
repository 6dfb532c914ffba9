--[[ Judge a request against all its limits at one instant, and charge all of them if all allow.

KEYS   one per charge, all of one slot
ARGV   1 the time to decide at, us since the epoch; 0: the server's own TIME, read once
       then per charge: cost, algorithm number, tick_us, rate, burst, period, offset (ticks)
Reply  whole numbers: 1 if all allow, else 0; then per charge: allowed 0 or 1, remaining, retry_after
       (-1: never), next_after, reset_after (ticks). allowed and retry_after tell how things stood
       before anything was charged, the others how they stand now. ]]
local UNITS_MAX = 4294967295 -- of a cost, a rate and a burst

local now_us = whole(ARGV[1], 0, EXACT_MAX)
if now_us == 0 then
  local time = redis.call('TIME')
  now_us = math.min(time[1] * 1000000 + time[2], EXACT_MAX)
end

local function read_limit(at)
  return {
    cost = whole(ARGV[at], 0, UNITS_MAX),
    algorithm = algorithms[ARGV[at + 1]],
    tick_us = whole(ARGV[at + 2], 1, 1000000),
    rate = whole(ARGV[at + 3], 1, UNITS_MAX),
    burst = whole(ARGV[at + 4], 0, UNITS_MAX),
    period = whole(ARGV[at + 5], 1, EXACT_MAX),
    offset = whole(ARGV[at + 6], 0, EXACT_MAX),
  }
end

local limits, states, reply = {}, {}, {1}
for i, key in ipairs(KEYS) do
  local limit = read_limit(7 * i - 5)
  limit.ticks_per_s = 1000000 / limit.tick_us
  local state = limit.algorithm.read(key, limit, math.floor(now_us / limit.tick_us))
  limits[i], states[i] = limit, state

  local at = 5 * i - 3
  reply[at], reply[at + 1], reply[at + 2], reply[at + 3], reply[at + 4] =
    limit.algorithm.evaluate(limit, state, limit.cost)
  if reply[at] == 0 then
    reply[1] = 0
  end
end

-- Everything has been read and judged: from here on nothing can fail but a write.
for i, key in ipairs(KEYS) do
  local limit, state = limits[i], states[i]
  if reply[1] == 1 and limit.cost > 0 then
    limit.algorithm.charge(limit, state, limit.cost)
    limit.algorithm.write(key, limit, state)
    local at, _ = 5 * i - 3
    _, reply[at + 1], _, reply[at + 3], reply[at + 4] = limit.algorithm.evaluate(limit, state, 0)
  elseif state.ahead then
    limit.algorithm.write(key, limit, state) -- the clock was set back: follow it
  end
end
return reply
