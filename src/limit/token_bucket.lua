--[[ Token bucket: the twin of token_bucket.c, in a program whose KEYS, ARGV and reply driver.lua tells.

key    "debt updated"; 1 token = period units of debt; absent: a full bucket
limit  rate = tokens gained per period, burst = tokens in a full bucket, period = ticks, ticks_per_s;
       burst * period <= 2^52, and sums are ordered so that none passes 2^53
state  debt = what is owed at now, now = ticks, ahead = whether it was dated more than a second later
cost   tokens, >= 0; 0 asks only
]]
local token_bucket = {
  read = function(key, limit, now)
    local debt, updated = load_pair(key)
    local ahead = updated > now + limit.ticks_per_s
    if not ahead then
      if updated > now then
        now = updated -- a small step back: no time passed
      end
      debt = debt - (now - updated) * limit.rate
      if debt < 0 then
        debt = 0
      end
    end
    return {debt = debt, now = now, ahead = ahead}
  end,

  -- Returns allowed, remaining, retry_after (-1: never), next_after, reset_after.
  evaluate = function(limit, state, cost)
    local debt, burst, period, rate = state.debt, limit.burst, limit.period, limit.rate
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
    return allowed, remaining, retry_after, next_after, ceil(debt / rate)
  end,

  charge = function(limit, state, cost)
    state.debt = state.debt + cost * limit.period
  end,

  write = function(key, limit, state)
    save_pair(key, state.debt, state.now, state.debt / limit.rate / limit.ticks_per_s)
  end,
}
