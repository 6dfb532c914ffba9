--[[ Generic cell rate algorithm: the twin of gcra.c, in a program whose KEYS, ARGV and reply driver.lua
tells.

key    "arrival", the theoretical arrival time (ticks); absent: untouched
ARGV   burst = units at one instant, interval = ticks that a unit takes, after the rate;
       burst * interval <= 2^52, and a time plus that is exact
state  debt = ticks from now to the theoretical arrival time, now = ticks, ahead
cost   units, >= 0; 0 asks only
]]

local function get_arrival(key)
  return clamp(tonumber(redis.call('GET', key) or 0) or 0, 0, 2 * EXACT_MAX)
end

-- Debt at now, and whether it was dated by a later clock: then the bucket is full.
local function load_arrival(key, now, ticks_per_s, depth)
  local arrival = get_arrival(key)
  if arrival > now + depth + ticks_per_s then
    return depth, true
  end
  return arrival > now and arrival - now or 0, false
end

local function save_arrival(key, now, debt, ticks_per_s)
  local arrival = debt > 0 and now + debt or 0
  redis.call('SET', key, string.format('%.0f', arrival), 'PX', ttl_ms(debt / ticks_per_s))
end

local gcra = {
  read = function(key, at, now, ticks_per_s)
    local burst, interval = clamp(ARGV[at] + 0, 1, UNITS_MAX), clamp(ARGV[at + 1] + 0, 1, EXACT_MAX)
    local debt, ahead = load_arrival(key, now, ticks_per_s, burst * interval)
    return {
      burst = burst, interval = interval, ticks_per_s = ticks_per_s,
      debt = debt, now = now, ahead = ahead,
    }, at + 2
  end,

  evaluate = function(state, cost)
    local debt, burst, interval = state.debt, state.burst, state.interval
    local depth = burst * interval
    local remaining = debt < depth and floor((depth - debt) / interval) or 0

    local allowed, retry_after, next_after = 1, 0, 0
    if cost > burst then
      allowed, retry_after = 0, -1
    elseif cost > remaining then
      allowed, retry_after = 0, debt - depth + cost * interval
    end
    if remaining < burst then
      next_after = debt - depth + (remaining + 1) * interval
    end
    return allowed, remaining, retry_after, next_after, debt, 0
  end,

  charge = function(state, cost)
    local most = math.max(state.debt, state.burst * state.interval)
    state.debt = clamp(state.debt + cost * state.interval, 0, most)
  end,

  tell = get_arrival,

  write = function(key, state)
    save_arrival(key, state.now, state.debt, state.ticks_per_s)
  end,

  settle = function(key, at, now, ticks_per_s, rate, kind, delta)
    local burst, interval = clamp(ARGV[at] + 0, 1, UNITS_MAX), clamp(ARGV[at + 1] + 0, 1, EXACT_MAX)
    local debt = load_arrival(key, now, ticks_per_s, burst * interval)
    debt = clamp(debt + delta * interval, 0, math.max(debt, burst * interval))
    save_arrival(key, now, debt, ticks_per_s)
    return at + 2
  end,
}
