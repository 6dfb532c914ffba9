--[[ Token bucket: the twin of token_bucket.c, in a program whose KEYS, ARGV and reply driver.lua
tells.

key    packed: debt, updated (ticks); 1 token = period units of debt; absent: a full bucket
ARGV   burst = tokens in a full bucket, period = ticks, after the rate = tokens gained per period;
       burst * period <= 2^52, and sums are ordered so that none passes 2^53
state  debt = what is owed at dated, dated = now, or a little later (ticks)
cost   tokens, >= 0; 0 asks only
]]
if settles then
  return function(key, _, delta, _, now, ticks_per_s, rate, _, period)
    local _, debt, dated = load_meter(key, now, ticks_per_s, rate)
    debt = math.min(math.max(debt + delta * period, 0), 2^52)
    save_pair(key, debt, dated, debt / rate / ticks_per_s)
  end
end

local function judge(key, cost, now, ticks_per_s, rate, burst, period)
  local ahead, debt, dated = load_meter(key, now, ticks_per_s, rate)
  local missing, retry_after = debt - burst * period + cost * period, 0
  if cost > burst then
    retry_after = -1
  elseif cost > 0 and missing > 0 then
    local ticks = missing / rate
    retry_after = ticks + -ticks % 1
  end
  return retry_after, 0, ahead, debt, dated
end

local function finish(
  key, cost, to_full, writes, now, ticks_per_s, rate, burst, period, _, _, debt, dated)
  local full = burst * period
  if cost > 0 then
    debt = math.min(debt + cost * period, to_full and math.max(debt, full) or 2^52)
  end
  if writes then
    save_pair(key, debt, dated, debt / rate / ticks_per_s)
  end

  local room, remaining, next_after = full - debt, 0, 0
  if room > 0 then
    remaining = (room - room % period) / period
  end
  if remaining < burst then
    local ticks = ((remaining + 1) * period - room) / rate
    next_after = ticks + -ticks % 1
  end
  local ticks = debt / rate
  return remaining, next_after, ticks + -ticks % 1
end

return judge, finish
