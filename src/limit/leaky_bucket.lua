--[[ Leaky bucket: the twin of leaky_bucket.c, in a program whose KEYS, ARGV and reply driver.lua tells.

key    "level updated"; 1 unit = period parts of level; absent: an empty bucket
ARGV   burst = units that the bucket holds, period = ticks, max_wait = ticks (0: it polices), after the
       rate = units drained per period; burst * period <= 2^52
state  level = what is in the bucket at now, now = ticks, ahead
cost   units, >= 0; 0 asks only
]]
local leaky_bucket = {
  read = function(key, at, now, ticks_per_s, rate)
    local burst, period = clamp(ARGV[at] + 0, 1, UNITS_MAX), clamp(ARGV[at + 1] + 0, 1, EXACT_MAX)
    local max_wait = clamp(ARGV[at + 2] + 0, 0, EXACT_MAX)
    local level, dated, ahead = load_meter(key, now, ticks_per_s, rate)
    return {
      rate = rate, burst = burst, period = period, max_wait = max_wait, ticks_per_s = ticks_per_s,
      level = level, now = dated, ahead = ahead,
    }, at + 3
  end,

  evaluate = function(state, cost)
    local level, burst, period, rate = state.level, state.burst, state.period, state.rate
    local full, drained_after = burst * period, ceil(level / rate)
    local wait = state.max_wait > 0 and drained_after or 0
    local excess = wait > state.max_wait and wait - state.max_wait or 0
    local remaining = 0
    if level < full and excess == 0 then
      remaining = floor((full - level) / period)
    end

    local allowed, retry_after, next_after = 1, 0, 0
    if cost > burst then
      allowed, retry_after = 0, -1
    elseif cost > remaining then
      allowed, retry_after = 0, math.max(excess, ceil((level - full + cost * period) / rate))
    end
    if remaining < burst then
      next_after = math.max(excess, ceil((level - full + (remaining + 1) * period) / rate))
    end
    if allowed == 0 or cost == 0 then
      wait = 0
    end
    return allowed, remaining, retry_after, next_after, drained_after, wait
  end,

  charge = function(state, cost, to_full)
    local most = to_full and math.max(state.level, state.burst * state.period) or EXACT_MAX
    state.level = clamp(state.level + cost * state.period, 0, most)
  end,

  tell = load_pair,

  write = function(key, state)
    save_pair(key, state.level, state.now, state.level / state.rate / state.ticks_per_s)
  end,

  -- A departure that was granted is not taken back.
  settle = function(key, at, now, ticks_per_s, rate, kind, delta)
    local period, max_wait = clamp(ARGV[at + 1] + 0, 1, EXACT_MAX), ARGV[at + 2]
    if max_wait == '0' or delta > 0 then
      local level, dated = load_meter(key, now, ticks_per_s, rate)
      level = clamp(level + delta * period, 0, EXACT_MAX)
      save_pair(key, level, dated, level / rate / ticks_per_s)
    end
    return at + 3
  end,
}
