--[[ Sliding window: the twin of sliding_window.c, in a program whose KEYS, ARGV and reply
driver.lua describes.

key    packed: the number of the latest sub-window with a charge (a double), and buckets + 1
       counters of 32 bits: of it, and of those before it; absent: none
ARGV   period = ticks, buckets = sub-windows in it, strict = 0 or 1, after the rate = units per
       period; rate * period / buckets <= 2^52, as is a counter times the width of a sub-window
state  counts[i + 2] = units in the i-th sub-window before that of now (so that they unpack in
       place), counts[1] = number of that of now; into = ticks since it began
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
  local number = counts[1]
  counts[buckets + 3] = nil -- where unpack() ended
  if not (number >= 0 and number <= 2^52) then
    return nil
  end
  counts[1] = number - number % 1
  for i = 2, buckets + 2 do
    if counts[i] > 0 then
      return counts
    end
  end
  return nil
end

local function pack_counts(counts, buckets)
  return struct.pack(format_of(buckets), unpack(counts, 1, buckets + 2))
end

-- Units in the window but for its oldest sub-window, and all that count now: of the oldest the
-- part that is still inside.
local function sum_window(counts, buckets, width, into, strict)
  local sum, oldest = 0, counts[buckets + 2]
  for i = 2, buckets + 1 do
    sum = sum + counts[i]
  end
  if strict == 1 or oldest == 0 then
    return sum, sum + oldest
  end
  local part = oldest * (width - math.max(into, 0)) / width
  return sum, sum + part + -part % 1
end

-- Ticks until cost units, at most the rate, pass. Sub-window by sub-window, as the oldest go.
local function window_passes_after(counts, whole, cost, rate, buckets, width, into_now, strict)
  for step = 0, buckets do
    local room = rate - cost - whole
    if room >= 0 then
      local oldest, into = counts[buckets + 2 - step], 0
      if oldest > room then
        local ticks = room * width / oldest
        into = strict == 1 and width or width - (ticks - ticks % 1)
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
local function window_reset_after(counts, buckets, width, into)
  for i = 0, buckets do
    if counts[i + 2] > 0 then
      return (buckets + 1 - i) * width - into
    end
  end
  return 0
end

-- Of key at now: whether the clock was set back, counts, into.
local function load_window(key, now, ticks_per_s, buckets, width)
  local counts, ahead = load_counts(key, buckets) or {0}, false
  local into = now % width
  local number = (now - into) / width
  local age = counts[2] and number - counts[1] or buckets + 1
  if age < 0 then
    age = 0
    ahead = counts[1] * width > now + ticks_per_s
    if not ahead then
      -- A small step back: no time passes until the sub-window begins.
      number, into = counts[1], now - counts[1] * width
    end
  end
  if age > 0 then
    for i = buckets, 0, -1 do
      counts[i + 2] = i >= age and counts[i - age + 2] or 0
    end
  end
  counts[1] = number
  return ahead, counts, into
end

if settles then
  -- What is taken counts in the sub-window of now; what is given back is of that of the charge.
  return function(key, _, delta, charged_at, now, ticks_per_s, _, period, buckets)
    local width = period / buckets
    if delta > 0 then
      local _, counts, into = load_window(key, now, ticks_per_s, buckets, width)
      local most = 2^52 / width
      counts[2] = math.min(counts[2] + delta, 2^32 - 1, most - most % 1)
      local lifetime = window_reset_after(counts, buckets, width, into)
      redis.call('SET', key, pack_counts(counts, buckets), 'EX', ttl_s(lifetime / ticks_per_s))
      return
    end
    local counts = load_counts(key, buckets)
    if counts then
      local age = math.max(counts[1] - (charged_at - charged_at % width) / width, 0)
      if age <= buckets then
        counts[age + 2] = math.max(counts[age + 2] + delta, 0)
        redis.call('SET', key, pack_counts(counts, buckets), 'KEEPTTL')
      end
    end
  end
end

local function judge(key, cost, now, ticks_per_s, rate, period, buckets, strict)
  local width = period / buckets
  local ahead, counts, into = load_window(key, now, ticks_per_s, buckets, width)
  local whole, used = sum_window(counts, buckets, width, into, strict)
  local retry_after = 0
  if cost > rate then
    retry_after = -1
  elseif cost > 0 and used + cost > rate then
    retry_after = window_passes_after(counts, whole, cost, rate, buckets, width, into, strict)
  end
  return retry_after, 0, ahead, counts, counts[1] * width, into
end

local function finish(
  key, cost, to_full, writes, now, ticks_per_s, rate, period, buckets, strict, _, counts, _, into)
  local width = period / buckets
  local whole, used = sum_window(counts, buckets, width, into, strict)
  if to_full then
    cost = math.min(cost, math.max(rate - used, 0))
  end
  if cost > 0 then
    local most = 2^52 / width
    local newest = math.min(counts[2] + cost, 2^32 - 1, most - most % 1)
    whole, used, counts[2] = whole + newest - counts[2], used + newest - counts[2], newest
  end
  local reset_after = window_reset_after(counts, buckets, width, into)
  if writes then
    redis.call('SET', key, pack_counts(counts, buckets), 'EX', ttl_s(reset_after / ticks_per_s))
  end

  local remaining, next_after = used < rate and rate - used or 0, 0
  if remaining < rate then
    next_after =
      window_passes_after(counts, whole, remaining + 1, rate, buckets, width, into, strict)
  end
  return remaining, next_after, reset_after
end

return judge, finish
