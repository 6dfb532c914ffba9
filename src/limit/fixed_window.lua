--[[ Fixed window: the twin of fixed_window.c, in a program whose KEYS, ARGV and reply driver.lua tells.

key    "count start"; units admitted in the window that starts at start (ticks); absent: none
limit  rate = units per window, period = ticks, offset = ticks from the epoch to the start of some
       window, ticks_per_s; period <= 2^52 and now <= 2^52, so that their sum is exact
state  count = units in the window of now, start = of that window, left = ticks until its end,
       ahead = whether it was dated more than a second later
cost   units, >= 0; 0 asks only
]]
local fixed_window = {
  read = function(key, limit, now)
    local count, start = load_pair(key)
    local ahead = start > now + limit.ticks_per_s
    if start > now and not ahead then
      now = start -- a small step back: no time passed
    end
    local into = (now - limit.offset) % limit.period
    local window = now >= into and now - into or 0
    if start < window then
      count = 0
    end
    return {count = count, start = window, left = limit.period - into, ahead = ahead}
  end,

  -- Returns allowed, remaining, retry_after (-1: never), next_after, reset_after.
  evaluate = function(limit, state, cost)
    local rate, count = limit.rate, state.count
    local remaining = count < rate and rate - count or 0
    local reset_after = count > 0 and state.left or 0

    local allowed, retry_after = 1, 0
    if cost > rate then
      allowed, retry_after = 0, -1
    elseif cost > remaining then
      allowed, retry_after = 0, reset_after
    end
    return allowed, remaining, retry_after, reset_after, reset_after
  end,

  charge = function(limit, state, cost)
    state.count = state.count + cost
  end,

  write = function(key, limit, state)
    save_pair(key, state.count, state.start, state.left / limit.ticks_per_s)
  end,
}
