--[[ Generic cell rate algorithm: the twin of gcra.c, in a program whose KEYS, ARGV and reply
driver.lua tells.

state  arrival, the theoretical arrival time (ticks); absent: untouched
ARGV   burst = units at one instant, interval = ticks that a unit takes, after the rate;
       burst * interval <= 2^52, and a time plus that is exact
judged debt = ticks from now to the theoretical arrival time, and now
cost   units, >= 0; 0 asks only
]]

if settles then
  return function(_, _, delta, _, now, ticks_per_s, _, burst, interval, _, _, arrival)
    local depth = burst * interval
    local debt = arrival > now and arrival - now or 0
    if debt > depth + ticks_per_s then
      debt = depth
    end
    debt = math.min(math.max(debt + delta * interval, 0), math.max(debt, depth))
    return debt > 0 and now + debt or 0, nil, debt
  end, nil, 8
end

local function judge(_, cost, now, ticks_per_s, _, burst, interval, _, _, arrival)
  local depth = burst * interval
  local debt = arrival > now and arrival - now or 0
  local ahead = debt > depth + ticks_per_s -- dated by a later clock: then the bucket is full
  if ahead then
    debt = depth
  end

  local missing, retry_after = debt - depth + cost * interval, 0
  if cost > burst then
    retry_after = -1
  elseif cost > 0 and missing > 0 then
    retry_after = missing
  end
  return retry_after, 0, ahead, debt, now
end

local function finish(_, cost, _, _, now, _, _, burst, interval, _, _, debt)
  local depth = burst * interval
  if cost > 0 then
    debt = math.min(debt + cost * interval, math.max(debt, depth))
  end

  local room, remaining, next_after = depth - debt, 0, 0
  if room > 0 then
    remaining = (room - room % interval) / interval
  end
  if remaining < burst then
    next_after = (remaining + 1) * interval - room
  end
  return remaining, next_after, debt, now + debt, nil, debt
end

return judge, finish, 8
