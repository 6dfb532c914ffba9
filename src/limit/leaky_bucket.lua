--[[ Leaky bucket: the twin of leaky_bucket.c, in a program whose KEYS, ARGV and reply driver.lua
tells.

key    packed: level, updated (ticks); 1 unit = period parts of level; absent: an empty bucket
ARGV   burst = units that the bucket holds, period = ticks, max_wait = ticks (0: it polices), after
       the rate = units drained per period; burst * period <= 2^52
state  level = what is in the bucket at dated, dated = now, or a little later (ticks)
cost   units, >= 0; 0 asks only
]]

-- Ticks until what is in the bucket has drained; how many of them are more than anybody waits.
local function drain_of(level, rate, max_wait)
  local ticks = level / rate
  local drained_after = ticks + -ticks % 1
  return drained_after, max_wait > 0 and drained_after > max_wait and drained_after - max_wait or 0
end

if settles then
  -- A departure that was granted is not taken back.
  return function(key, _, delta, _, now, ticks_per_s, rate, _, period, max_wait)
    if max_wait == 0 or delta > 0 then
      local _, level, dated = load_meter(key, now, ticks_per_s, rate)
      level = math.min(math.max(level + delta * period, 0), 2^52)
      save_pair(key, level, dated, level / rate / ticks_per_s)
    end
  end
end

local function judge(key, cost, now, ticks_per_s, rate, burst, period, max_wait)
  local ahead, level, dated = load_meter(key, now, ticks_per_s, rate)
  local over = level - burst * period + cost * period
  local drained_after, excess = drain_of(level, rate, max_wait)
  local retry_after, wait = 0, 0
  if cost > burst then
    retry_after = -1
  elseif cost > 0 and (over > 0 or excess > 0) then
    local ticks = over > 0 and over / rate or 0
    retry_after = math.max(excess, ticks + -ticks % 1)
  elseif cost > 0 and max_wait > 0 then
    wait = drained_after
  end
  return retry_after, wait, ahead, level, dated
end

local function finish(
  key, cost, to_full, writes, now, ticks_per_s, rate, burst, period, max_wait, _, level, dated)
  local full = burst * period
  if cost > 0 then
    level = math.min(level + cost * period, to_full and math.max(level, full) or 2^52)
  end
  if writes then
    save_pair(key, level, dated, level / rate / ticks_per_s)
  end

  local drained_after, excess = drain_of(level, rate, max_wait)
  local room, remaining, next_after = full - level, 0, 0
  if room > 0 and excess == 0 then
    remaining = (room - room % period) / period
  end
  if remaining < burst then
    local ticks = ((remaining + 1) * period - room) / rate
    next_after = math.max(excess, ticks + -ticks % 1)
  end
  return remaining, next_after, drained_after
end

return judge, finish
