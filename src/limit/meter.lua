--[[ Token bucket and leaky bucket: the twin of token_bucket.c, leaky_bucket.c and meter.c, in a
program whose KEYS, ARGV and reply driver.lua tells.

state  taken, dated (ticks): what is in a leaky bucket, what is owed to a token bucket; dated = now,
       or a little later; 1 unit = period parts; absent: none
ARGV   burst = units that the bucket holds, period = ticks, max_wait = ticks (0: nobody waits, as at
       a token bucket), after the rate = units that leave, or tokens gained, per period;
       burst * period <= 2^52, and sums are ordered so that none passes 2^53
cost   units, >= 0; 0 asks only
]]
if settles then
  -- A departure that was granted is not taken back.
  return function(
    _, _, delta, _, now, ticks_per_s, rate, _, period, max_wait, _, taken, dated)
    if max_wait > 0 and delta <= 0 then
      return nil
    end
    if dated <= now then
      taken = math.max(taken - (now - dated) * rate, 0)
    end
    if dated <= now or dated > now + ticks_per_s then
      dated = now
    end
    taken = math.min(math.max(taken + delta * period, 0), 2^52)
    return taken, dated, taken / rate
  end, nil, 16
end

local function judge(
  _, cost, now, ticks_per_s, rate, burst, period, max_wait, _, taken, dated)
  local ahead = dated > now + ticks_per_s
  if dated <= now then
    taken = taken - (now - dated) * rate
    if taken < 0 then
      taken = 0
    end
  end
  if dated <= now or ahead then
    dated = now -- unless it was a small step back: then no time passed
  end

  local over, retry_after, wait = taken - burst * period + cost * period, 0, 0
  if cost > burst then
    retry_after = -1
  elseif cost > 0 then
    if over > 0 then
      local ticks = over / rate
      retry_after = ticks + -ticks % 1
    end
    if max_wait > 0 then
      local ticks = taken / rate
      local drained_after = ticks + -ticks % 1
      retry_after = math.max(retry_after, drained_after - max_wait)
      wait = retry_after == 0 and drained_after or 0
    end
  end
  return retry_after, wait, ahead, taken, dated
end

local function finish(
  _, cost, to_full, _, _, _, rate, burst, period, max_wait, _, taken, dated)
  local full = burst * period
  if cost > 0 then
    taken = math.min(taken + cost * period, to_full and math.max(taken, full) or 2^52)
  end

  local lifetime = taken / rate
  local drained_after = lifetime + -lifetime % 1
  local excess = max_wait > 0 and drained_after > max_wait and drained_after - max_wait or 0
  local room, remaining, next_after = full - taken, 0, 0
  if room > 0 and excess == 0 then
    remaining = (room - room % period) / period
  end
  if remaining < burst then
    local ticks = ((remaining + 1) * period - room) / rate
    next_after = math.max(excess, ticks + -ticks % 1)
  end
  return remaining, next_after, drained_after, taken, dated, lifetime
end

return judge, finish, 16
