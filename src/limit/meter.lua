--[[ Token bucket and leaky bucket: the twin of meter.c, in place in a program whose KEYS, ARGV
and reply driver.lua describes.

state  taken, dated (ticks): what is in a leaky bucket, what is owed to a token bucket; dated = now,
       or a little later; 1 unit = period parts; absent: none
ARGV   burst = units that the bucket holds, period = ticks, max_wait = ticks (0: no request waits,
       as in a token bucket), after the rate = units that leave, or tokens gained, per period;
       burst * period <= 2^52, and sums are ordered so that none passes 2^53
cost   units, >= 0; 0 asks only
]]
--@ state
state_bytes = 16

--@ judge
local burst, period, max_wait, taken, dated = a, b, c, first, second
ahead = dated > now + ticks_per_s
if dated <= now then
  taken = taken - (now - dated) * rate
  if taken < 0 then
    taken = 0
  end
end
if dated <= now or ahead then
  dated = now -- unless it was a small step back: then no time passed
end

local over = taken - burst * period + cost * period
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
if retry_after > 0 then
  retry_after = retry_after + dated - now -- no time passes until then
end
first, second = taken, dated

--@ finish
local burst, period, max_wait = a, b, c
local full = burst * period
if charged > 0 then
  local most = to_full and math.max(first, full) or 2^52
  first = first + charged * period
  if first > most then
    first = most
  end
end

lifetime = first / rate
reset_after = lifetime + -lifetime % 1
local excess = max_wait > 0 and reset_after > max_wait and reset_after - max_wait or 0
local room = full - first
if room > 0 and excess == 0 then
  remaining = (room - room % period) / period
end
if remaining < burst then
  local ticks = ((remaining + 1) * period - room) / rate
  next_after = ticks + -ticks % 1
  if next_after < excess then
    next_after = excess
  end
end
local still = first > 0 and second - now or 0
reset_after = reset_after + still
next_after = next_after > 0 and next_after + still or 0
lifetime = lifetime + still

--@ settle
local period, max_wait, taken, dated = b, c, first, second
if dated <= now then
  taken = math.max(taken - (now - dated) * rate, 0)
end
if dated <= now or dated > now + ticks_per_s then
  dated = now
end
if delta > 0 then
  untouched = taken == 0
  forgiven = taken + delta * period > 2^52 and dated
  taken = math.min(taken + delta * period, 2^52)
  first, second, lifetime = taken, dated, taken / rate
elseif delta == 0 or max_wait > 0 or taken == 0 or not unused then
  first = nil -- while shaping: a departure that was granted is not taken back
else
  local amount = math.min(-delta * period, 2^52)
  local refilled = math.min(unused * rate, amount)
  local ticks = refilled / rate
  used = ticks - ticks % 1
  taken = math.max(taken - (amount - refilled), 0)
  first, second, lifetime = taken, dated, taken / rate
end
