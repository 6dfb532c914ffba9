--[[ Sliding window: the twin of sliding_window.c, in a program whose KEYS, ARGV and reply driver.lua
tells.

key    packed: the number of the latest sub-window with a charge (a double), and buckets + 1 counters
       of 32 bits: of it, and of those before it; absent: none
ARGV   period = ticks, buckets = sub-windows in it, strict = 0 or 1, after the rate = units per period;
       rate * period / buckets <= 2^52, as is a counter times the width of a sub-window
state  counts[i + 2] = units in the i-th sub-window before that of now (so that they unpack in place),
       number = of that of now, into = ticks since it began, width = ticks, ahead
cost   units, >= 0; 0 asks only
]]

local function format_of(buckets)
  return '<d' .. string.rep('I4', buckets + 1)
end

-- {number, counter, counter, ...} of key; nil if nothing counts.
local function load_counts(key, buckets)
  local saved = redis.call('GET', key)
  if not saved or #saved ~= 8 + 4 * (buckets + 1) then
    return nil
  end
  local counts = {struct.unpack(format_of(buckets), saved)}
  local sum = 0
  for i = 2, buckets + 2 do
    sum = sum + counts[i]
  end
  counts[1] = clamp(counts[1], 0, EXACT_MAX)
  return sum > 0 and counts or nil
end

local function pack_counts(number, counts, buckets)
  return struct.pack(format_of(buckets), number, unpack(counts, 2, buckets + 2))
end

-- Units that count now; those of the oldest by the part of it that is still inside.
local function sum_window(state)
  local counts, buckets, width, sum = state.counts, state.buckets, state.width, 0
  for i = 2, buckets + 1 do
    sum = sum + counts[i]
  end
  local oldest = counts[buckets + 2]
  return sum, sum + (state.strict and oldest or ceil(oldest * (width - state.into) / width))
end

-- Ticks until cost units, at most the rate, pass. Sub-window by sub-window, as the oldest go.
local function window_passes_after(state, whole, cost)
  local counts, buckets, width, into_now = state.counts, state.buckets, state.width, state.into
  for step = 0, buckets do
    local room = state.rate - cost - whole
    if room >= 0 then
      local oldest, into = counts[buckets + 2 - step], 0
      if oldest > room then
        into = state.strict and width or width - floor(room * width / oldest)
      end
      if step == 0 and into < into_now then
        into = into_now
      end
      if into < width then
        return step * width + into - into_now
      end
    end
    if step < buckets then
      whole = whole - counts[buckets + 1 - step]
    end
  end
  return (buckets + 1) * width - into_now
end

-- Ticks until the newest sub-window that counts has gone; 0 if none does.
local function window_reset_after(state)
  local counts, buckets = state.counts, state.buckets
  for i = 0, buckets do
    if counts[i + 2] > 0 then
      return (buckets + 1 - i) * state.width - state.into
    end
  end
  return 0
end

local sliding_window = {
  read = function(key, at, now, ticks_per_s, rate)
    local buckets = clamp(ARGV[at + 1] + 0, 1, 100)
    local width = clamp(ARGV[at] + 0, 1, EXACT_MAX) / buckets
    local number = floor(now / width)
    local into = now - number * width
    local counts, ahead = load_counts(key, buckets), false
    local age = buckets + 1
    if counts then
      local newest = counts[1]
      age = newest <= number and number - newest or 0
      if newest > number then
        ahead = newest * width > now + ticks_per_s
        if not ahead then
          number, into = newest, 0 -- a small step back: no time passed
        end
      end
    else
      counts = {0}
    end
    if age > 0 then
      for i = buckets, 0, -1 do
        counts[i + 2] = i >= age and counts[i - age + 2] or 0
      end
    end
    return {
      rate = rate, ticks_per_s = ticks_per_s, buckets = buckets, width = width,
      strict = ARGV[at + 2] == '1', counts = counts, number = number, into = into, ahead = ahead,
    }, at + 3
  end,

  evaluate = function(state, cost)
    local rate = state.rate
    local whole, used = sum_window(state)
    local remaining = used < rate and rate - used or 0

    local allowed, retry_after, next_after = 1, 0, 0
    if cost > rate then
      allowed, retry_after = 0, -1
    elseif cost > remaining then
      allowed, retry_after = 0, window_passes_after(state, whole, cost)
    end
    if remaining < rate then
      next_after = window_passes_after(state, whole, remaining + 1)
    end
    return allowed, remaining, retry_after, next_after, window_reset_after(state), 0
  end,

  charge = function(state, cost, to_full)
    if to_full then
      local _, used = sum_window(state)
      cost = clamp(state.rate - used, 0, cost)
    end
    local most = math.min(UNITS_MAX, floor(EXACT_MAX / state.width))
    state.counts[2] = clamp(state.counts[2] + cost, 0, most)
  end,

  tell = function(key, state)
    local counts = load_counts(key, state.buckets) or {}
    for i = #counts + 1, state.buckets + 2 do
      counts[i] = 0
    end
    return unpack(counts, 1, state.buckets + 2)
  end,

  write = function(key, state)
    redis.call('SET', key, pack_counts(state.number, state.counts, state.buckets),
      'PX', ttl_ms(window_reset_after(state) / state.ticks_per_s))
  end,

  settle = function(key, at, now, ticks_per_s, rate, kind, delta, charged_at)
    local buckets = clamp(ARGV[at + 1] + 0, 1, 100)
    local width = clamp(ARGV[at] + 0, 1, EXACT_MAX) / buckets
    local counts = load_counts(key, buckets)
    if counts then
      local age = math.max(counts[1] - floor(charged_at / width), 0)
      if age <= buckets then
        local most = math.min(UNITS_MAX, floor(EXACT_MAX / width))
        counts[age + 2] = clamp(counts[age + 2] + delta, 0, most)
        redis.call('SET', key, pack_counts(counts[1], counts, buckets), 'KEEPTTL')
      end
    end
    return at + 3
  end,
}
