--[[ Token bucket: the twin of token_bucket.c, in a program whose KEYS, ARGV and reply driver.lua tells.

key    "debt updated"; 1 token = period units of debt; absent: a full bucket
ARGV   burst = tokens in a full bucket, period = ticks, after the rate = tokens gained per period;
       burst * period <= 2^52, and sums are ordered so that none passes 2^53
state  debt = what is owed at now, now = ticks, ahead
cost   tokens, >= 0; 0 asks only
]]
local token_bucket = {
  read = function(key, at, now, ticks_per_s, rate)
    local burst, period = clamp(ARGV[at] + 0, 1, UNITS_MAX), clamp(ARGV[at + 1] + 0, 1, EXACT_MAX)
    local debt, dated, ahead = load_meter(key, now, ticks_per_s, rate)
    return {
      rate = rate, burst = burst, period = period, ticks_per_s = ticks_per_s,
      debt = debt, now = dated, ahead = ahead,
    }, at + 2
  end,

  evaluate = function(state, cost)
    local debt, burst, period, rate = state.debt, state.burst, state.period, state.rate
    local full = burst * period
    local remaining = debt < full and floor((full - debt) / period) or 0

    local allowed, retry_after, next_after = 1, 0, 0
    if cost > burst then
      allowed, retry_after = 0, -1
    elseif cost > remaining then
      allowed, retry_after = 0, ceil((debt - full + cost * period) / rate)
    end
    if remaining < burst then
      next_after = ceil((debt - full + (remaining + 1) * period) / rate)
    end
    return allowed, remaining, retry_after, next_after, ceil(debt / rate), 0
  end,

  charge = function(state, cost, to_full)
    local most = to_full and math.max(state.debt, state.burst * state.period) or EXACT_MAX
    state.debt = clamp(state.debt + cost * state.period, 0, most)
  end,

  tell = load_pair,

  write = function(key, state)
    save_pair(key, state.debt, state.now, state.debt / state.rate / state.ticks_per_s)
  end,

  settle = function(key, at, now, ticks_per_s, rate, kind, delta)
    local period = clamp(ARGV[at + 1] + 0, 1, EXACT_MAX)
    local debt, dated = load_meter(key, now, ticks_per_s, rate)
    debt = clamp(debt + delta * period, 0, EXACT_MAX)
    save_pair(key, debt, dated, debt / rate / ticks_per_s)
    return at + 2
  end,
}
