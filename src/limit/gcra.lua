--[[ Generic cell rate algorithm: the twin of gcra.c, in place in a program whose KEYS, ARGV and
reply driver.lua describes.

state  arrival, the theoretical arrival time (ticks); absent: untouched
ARGV   burst = units at one instant, interval = ticks that a unit takes, after the rate;
       burst * interval <= 2^52, and a time plus that is exact
judged debt = ticks from now to the theoretical arrival time, and now
cost   units, >= 0; 0 asks only
]]
--@ state
state_bytes = 8

--@ judge
local burst, interval, arrival = a, b, first
local depth = burst * interval
local debt = arrival > now and arrival - now or 0
ahead = debt > depth + ticks_per_s -- dated by a later clock: then the bucket is full
if ahead then
  debt = depth
end

local missing = debt - depth + cost * interval
if cost > burst then
  retry_after = -1
elseif cost > 0 and missing > 0 then
  retry_after = missing
end
first, second = debt, now

--@ finish
local burst, interval, debt = a, b, first
local depth = burst * interval
if charged > 0 then
  debt = math.min(debt + charged * interval, math.max(debt, depth))
end

local room = depth - debt
if room > 0 then
  remaining = (room - room % interval) / interval
end
if remaining < burst then
  next_after = (remaining + 1) * interval - room
end
reset_after, lifetime = debt, debt
first = now + debt

--@ settle
local burst, interval, arrival = a, b, first
local depth = burst * interval
local debt = arrival > now and arrival - now or 0
if debt > depth + ticks_per_s then
  debt = depth
end
if delta > 0 then
  untouched = debt == 0
  forgiven = debt + delta * interval > math.max(debt, depth) and now
  debt = math.min(debt + delta * interval, math.max(debt, depth))
  first, lifetime = now + debt, debt
elseif delta == 0 or debt == 0 or not unused then
  first = nil
else
  local amount = math.min(-delta * interval, 2^52)
  used = math.min(unused, amount)
  debt = math.max(debt - (amount - used), 0)
  first, lifetime = debt > 0 and now + debt or 0, debt
end
