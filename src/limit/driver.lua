--[[ Judge a request against all its limits at one instant, and charge all of them if all allow.

KEYS   one per charge, all of one slot
ARGV   1 the time to decide at, us since the epoch; 0: the server's own TIME, read once
       then per charge: cost, algorithm number, tick_us, rate, burst, period, offset (ticks)
Reply  whole numbers: 1 if all allow, else 0; then per charge: allowed 0 or 1, remaining, retry_after
       (-1: never), next_after, reset_after (ticks). allowed and retry_after tell how things stood
       before anything was charged, the others how they stand now. ]]
local UNITS_MAX = 4294967295 -- of a cost, a rate and a burst

local now_us = clamp(ARGV[1] + 0, 0, EXACT_MAX)
if now_us == 0 then
  local time = redis.call('TIME')
  now_us = clamp(time[1] * 1000000 + time[2], 0, EXACT_MAX)
end

local limits, reply = {}, {1, 0, 0, 0, 0, 0}
for i = 1, #KEYS do
  local at = 7 * i - 5
  local tick_us = clamp(ARGV[at + 2] + 0, 1, 1000000)
  local limit = {
    algorithm = algorithms[ARGV[at + 1]],
    cost = clamp(ARGV[at] + 0, 0, UNITS_MAX),
    rate = clamp(ARGV[at + 3] + 0, 1, UNITS_MAX),
    burst = clamp(ARGV[at + 4] + 0, 0, UNITS_MAX),
    period = clamp(ARGV[at + 5] + 0, 1, EXACT_MAX),
    offset = clamp(ARGV[at + 6] + 0, 0, EXACT_MAX),
    ticks_per_s = 1000000 / tick_us,
    state = false,
  }
  local algorithm = limit.algorithm
  limit.state = algorithm.read(KEYS[i], limit, floor(now_us / tick_us))
  limits[i] = limit

  at = 5 * i - 3
  reply[at], reply[at + 1], reply[at + 2], reply[at + 3], reply[at + 4] =
    algorithm.evaluate(limit, limit.state, limit.cost)
  if reply[at] == 0 then
    reply[1] = 0
  end
end

-- Everything has been read and judged: from here on nothing can fail but a write.
for i = 1, #KEYS do
  local limit = limits[i]
  local algorithm, state, cost = limit.algorithm, limit.state, limit.cost
  if reply[1] == 1 and cost > 0 then
    algorithm.charge(limit, state, cost)
    algorithm.write(KEYS[i], limit, state)
    local at, _ = 5 * i - 3
    _, reply[at + 1], _, reply[at + 3], reply[at + 4] = algorithm.evaluate(limit, state, 0)
  elseif state.ahead then
    algorithm.write(KEYS[i], limit, state) -- the clock was set back: follow it
  end
end
return reply
