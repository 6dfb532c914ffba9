--[[ Judge a request against all its limits at one instant, and charge all of them if it is admitted; or
correct what was charged.

KEYS   one per charge, all of one slot
ARGV   1 what to do: 0 decides; 1 settles; 2 judges, and changes nothing; 3 decides for a request that is
         denied by others, so that at most those are charged which count denied requests; 4 decides
         requests alike, one after another
       2 the time to do it at, us since the epoch; 0: the server's own TIME, read once
       then per charge: cost, algorithm number, flags (1: shadow, 2: denied requests count), tick_us,
       rate, the parameters that the algorithm's read tells of, the slot of a concurrency limit, the
       four edges (us) of a calendar's windows; with 4, behind all of them, how many are alike
       or per settlement: kind (0 corrects, 1 releases a slot, 2 renews it), delta (units, signed),
       the time of the charge (us), and the same as for a charge
Reply  whole numbers: 1 if every limit that is enforced allows, else 0; the time (us); then per charge:
       allowed 0 or 1, remaining, retry_after (-1: never, -2: unknown), next_after, reset_after, wait
       (ticks). allowed and wait tell how things stood before anything was charged, the others how
       they stand now; retry_after of what is allowed stays 0. A settlement's: 1 and the time. Of
       those alike: how many are admitted, the first ones; the time; then per charge the numbers that its
       algorithm tells of the state before them
Error  CLOCK: the time is not within the edges that were given; nothing was changed ]]
local now_us = clamp(ARGV[2] + 0, 0, EXACT_MAX)
if now_us == 0 then
  local time = redis.call('TIME')
  now_us = clamp(time[1] * 1000000 + time[2], 0, EXACT_MAX)
end

local reply = {1, now_us}
local at = 3

-- By their numbers, as text; made when they are first met.
local algorithms = {}

local function algorithm_of(number)
  local algorithm = algorithms[number]
  if not algorithm then
    algorithm = make_algorithm(number)
    algorithms[number] = algorithm
  end
  return algorithm
end

if ARGV[1] == '1' then
  for i = 1, #KEYS do
    local kind, delta = ARGV[at], clamp(ARGV[at + 1] + 0, -EXACT_MAX, EXACT_MAX)
    local algorithm = algorithm_of(ARGV[at + 4])
    local tick_us = clamp(ARGV[at + 6] + 0, 1, 1000000)
    local charged_at = floor(clamp(ARGV[at + 2] + 0, 0, EXACT_MAX) / tick_us)
    local rate = clamp(ARGV[at + 7] + 0, 1, UNITS_MAX)
    at = algorithm.settle(
      KEYS[i], at + 8, floor(now_us / tick_us), 1000000 / tick_us, rate, kind, delta, charged_at)
  end
  return reply
end

local states, starts, costs = {}, {}, {}
for i = 1, #KEYS do
  local algorithm, cost = algorithm_of(ARGV[at + 1]), clamp(ARGV[at] + 0, 0, UNITS_MAX)
  local tick_us = clamp(ARGV[at + 3] + 0, 1, 1000000)
  local rate = clamp(ARGV[at + 4] + 0, 1, UNITS_MAX)
  local state, next_at = algorithm.read(
    KEYS[i], at + 5, floor(now_us / tick_us), 1000000 / tick_us, rate)
  if not state then
    return redis.error_reply('CLOCK the time is not within the windows that were given')
  end
  states[i], starts[i], costs[i] = state, at, cost

  local to = 6 * i - 3
  reply[to], reply[to + 1], reply[to + 2], reply[to + 3], reply[to + 4], reply[to + 5] =
    algorithm.evaluate(state, cost)
  if reply[to] == 0 and ARGV[at + 2] % 2 == 0 then
    reply[1] = 0
  end
  at = next_at
end

if ARGV[1] == '2' then
  return reply
elseif ARGV[1] == '3' then
  reply[1] = 0
end

-- Everything has been read and judged: from here on nothing can fail but a write.
if ARGV[1] == '4' then
  -- One that is denied takes nothing, so that all after it are denied too.
  local n, fits = clamp(ARGV[at] + 0, 1, UNITS_MAX), {}
  local admitted = n
  for i = 1, #KEYS do
    fits[i] = costs[i] > 0 and floor(reply[6 * i - 2] / costs[i]) or n
    if ARGV[starts[i] + 2] % 2 == 0 then
      admitted = math.min(admitted, fits[i])
    end
  end
  local told = {admitted, now_us}
  for i = 1, #KEYS do
    local algorithm, state = algorithms[ARGV[starts[i] + 1]], states[i]
    for _, number in ipairs({algorithm.tell(KEYS[i], state)}) do
      told[#told + 1] = number
    end
    local taken = costs[i] * math.min(admitted, fits[i])
    if taken > 0 then
      algorithm.charge(state, taken, false)
    end
    if taken > 0 or state.ahead then
      algorithm.write(KEYS[i], state)
    end
  end
  return told
end

for i = 1, #KEYS do
  local state, cost = states[i], costs[i]
  at = starts[i]
  local algorithm, to = algorithms[ARGV[at + 1]], 6 * i - 3
  local passes = reply[1] == 1 and reply[to] == 1
  if cost > 0 and (passes or (ARGV[at + 2] + 0 >= 2 and not algorithm.has_slots)) then
    algorithm.charge(state, cost, not passes)
    algorithm.write(KEYS[i], state)
    local _
    if reply[to] == 0 then
      _, _, reply[to + 2] = algorithm.evaluate(state, cost)
    end
    _, reply[to + 1], _, reply[to + 3], reply[to + 4] = algorithm.evaluate(state, 0)
  elseif state.ahead then
    algorithm.write(KEYS[i], state) -- the clock was set back: follow it
  end
end
return reply
