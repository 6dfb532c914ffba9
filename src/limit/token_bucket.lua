--[[ Token bucket: the twin of token_bucket.c, in a program whose KEYS, ARGV and reply driver.lua tells.

key    "debt updated"; 1 token = period units of debt; absent: a full bucket
ARGV   burst = tokens in a full bucket, period = ticks, after the rate = tokens gained per period;
       burst * period <= 2^52, and sums are ordered so that none passes 2^53
state  debt = what is owed at now, now = ticks, ahead = whether it was dated more than a second later
cost   tokens, >= 0; 0 asks only
]]
local token_bucket = {
  -- Returns the state and where the next charge's arguments are.
  read = function(key, at, now, ticks_per_s, rate)
    local debt, updated = load_pair(key)
    local ahead = updated > now + ticks_per_s
    if not ahead then
      if updated > now then
        now = updated -- a small step back: no time passed
      end
      debt = debt - (now - updated) * rate
      if debt < 0 then
        debt = 0
      end
    end
    local burst = clamp(ARGV[at] + 0, 1, 4294967295)
    local period = clamp(ARGV[at + 1] + 0, 1, EXACT_MAX)
    return {
      rate = rate, burst = burst, period = period, full = burst * period, ticks_per_s = ticks_per_s,
      debt = debt, now = now, ahead = ahead,
    }, at + 2
  end,

  -- Returns allowed, remaining, retry_after (-1: never), next_after, reset_after, wait.
  evaluate = function(state, cost)
    local debt, full, burst, period, rate =
      state.debt, state.full, state.burst, state.period, state.rate
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
    local debt = state.debt + cost * state.period
    if to_full and debt > state.full then
      debt = math.max(state.debt, state.full)
    end
    state.debt = debt
  end,

  write = function(key, state)
    save_pair(key, state.debt, state.now, state.debt / state.rate / state.ticks_per_s)
  end,
}

-- Returns where the next settlement's arguments are.
token_bucket.settle = function(key, at, now, ticks_per_s, rate, kind, delta)
  local state, next_at = token_bucket.read(key, at, now, ticks_per_s, rate)
  state.debt = clamp(state.debt + delta * state.period, 0, EXACT_MAX)
  token_bucket.write(key, state)
  return next_at
end
