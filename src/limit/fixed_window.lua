--[[ Fixed window: the twin of fixed_window.c, in a program whose KEYS, ARGV and reply driver.lua tells.

key    "count start"; units admitted in the window that starts at start (ticks); absent: none
ARGV   period = ticks, offset = ticks from the epoch to the start of some window, after the rate = units
       per window; period <= 2^52 and now <= 2^52, so that their sum is exact
state  count = units in the window of now, start = of that window, left = ticks until its end,
       ahead = whether it was dated more than a second later
cost   units, >= 0; 0 asks only
]]
local fixed_window = {
  -- Returns the state and where the next charge's arguments are.
  read = function(key, at, now, ticks_per_s, rate)
    local period = clamp(ARGV[at] + 0, 1, EXACT_MAX)
    local offset = clamp(ARGV[at + 1] + 0, 0, EXACT_MAX)
    local count, start = load_pair(key)
    local ahead = start > now + ticks_per_s
    if start > now and not ahead then
      now = start -- a small step back: no time passed
    end
    local into = (now - offset) % period
    local window = now >= into and now - into or 0
    if start < window then
      count = 0
    end
    return {
      rate = rate, count = count, start = window, left = period - into, ticks_per_s = ticks_per_s,
      ahead = ahead,
    }, at + 2
  end,

  -- Returns allowed, remaining, retry_after (-1: never), next_after, reset_after, wait.
  evaluate = function(state, cost)
    local rate, count = state.rate, state.count
    local remaining = count < rate and rate - count or 0
    local reset_after = count > 0 and state.left or 0

    local allowed, retry_after = 1, 0
    if cost > rate then
      allowed, retry_after = 0, -1
    elseif cost > remaining then
      allowed, retry_after = 0, reset_after
    end
    return allowed, remaining, retry_after, reset_after, reset_after, 0
  end,

  charge = function(state, cost, to_full)
    local count = state.count + cost
    if to_full and count > state.rate then
      count = math.max(state.count, state.rate)
    end
    state.count = count
  end,

  write = function(key, state)
    save_pair(key, state.count, state.start, state.left / state.ticks_per_s)
  end,

  -- Returns where the next settlement's arguments are.
  settle = function(key, at, now, ticks_per_s, rate, kind, delta, charged_at)
    local count, start = load_pair(key)
    if count > 0 and charged_at >= start then
      count = clamp(count + delta, 0, EXACT_MAX)
      redis.call('SET', key, string.format('%.0f %.0f', count, start), 'KEEPTTL')
    end
    return at + 2
  end,
}
