--[[ Fixed window: the twin of fixed_window.c, in a program whose KEYS, ARGV and reply driver.lua tells.

key    "count start"; units admitted in the window that starts at start (ticks); absent: none
ARGV   period = ticks, offset = ticks from the epoch to the start of some window, kind (0: by the clock,
       1: from the first request, 2: by the calendar, and then the four edges around now), after the
       rate = units per window; period <= 2^52 and now <= 2^52, so that their sum is exact
state  count = units in the window of now, start = of that window, left = ticks until its end, ahead
cost   units, >= 0; 0 asks only
]]

-- The window of the calendar around now: its start and what is left of it. nil: it is not known. One
-- that is later than all that are known lasts, as far as this call can tell, a period.
local function find_window(at, now, dated, period)
  local edges = {}
  for i = 1, 4 do
    edges[i] = clamp(ARGV[at + i - 1] + 0, 0, 2 * EXACT_MAX)
  end
  if now < edges[1] or now >= edges[4] then
    return nil
  end
  if dated >= edges[4] then
    return dated, period
  end
  local next = 2
  while edges[next] <= dated do
    next = next + 1
  end
  return edges[next - 1], edges[next] - dated
end

local fixed_window = {
  read = function(key, at, now, ticks_per_s, rate)
    local period, kind = clamp(ARGV[at] + 0, 1, EXACT_MAX), ARGV[at + 2]
    local count, start = load_pair(key)
    local ahead, dated, next_at = start > now + ticks_per_s, now, at + 3
    if start > now and not ahead then
      dated = start -- a small step back: no time passed
    end

    local window, left
    if kind == '0' then
      local into = (dated - clamp(ARGV[at + 1] + 0, 0, EXACT_MAX)) % period
      window, left = dated >= into and dated - into or 0, period - into
    elseif kind == '1' then
      window = math.min(start, dated)
      if count == 0 or dated - window >= period then
        count, window = 0, dated
      end
      left = window + period - dated
    else
      window, left = find_window(at + 3, now, dated, period)
      next_at = at + 7
      if not window then
        return nil
      end
    end
    if start < window then
      count = 0
    end
    return {
      rate = rate, ticks_per_s = ticks_per_s, count = count, start = window, left = left,
      ahead = ahead,
    }, next_at
  end,

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
    local most = to_full and math.max(state.count, state.rate) or EXACT_MAX
    state.count = clamp(state.count + cost, 0, most)
  end,

  tell = load_pair,

  write = function(key, state)
    save_pair(key, state.count, state.start, state.left / state.ticks_per_s)
  end,

  -- The window of the charge is the latest, or it does not matter any more.
  settle = function(key, at, now, ticks_per_s, rate, kind, delta, charged_at)
    local count, start = load_pair(key)
    if count > 0 and charged_at >= start then
      count = clamp(count + delta, 0, EXACT_MAX)
      redis.call('SET', key, string.format('%.0f %.0f', count, start), 'KEEPTTL')
    end
    return ARGV[at + 2] == '2' and at + 7 or at + 3
  end,
}
