--[[ Generic cell rate algorithm: the twin of gcra.c, in a program whose KEYS, ARGV and reply
driver.lua tells.

key    packed: arrival, the theoretical arrival time (ticks); absent: untouched
ARGV   burst = units at one instant, interval = ticks that a unit takes, after the rate;
       burst * interval <= 2^52, and a time plus that is exact
state  debt = ticks from now to the theoretical arrival time, and now
cost   units, >= 0; 0 asks only
]]

-- Whether the arrival was dated by a later clock (then the bucket is full), and the debt at now.
local function load_debt(key, now, ticks_per_s, depth)
  local saved, arrival = redis.call('GET', key), 0
  if saved and #saved == 8 then
    arrival = struct.unpack('<d', saved)
  end
  if not (arrival > now and arrival <= 2^53) then
    return false, 0
  end
  if arrival > now + depth + ticks_per_s then
    return true, depth
  end
  return false, arrival - arrival % 1 - now
end

local function save_debt(key, now, debt, ticks_per_s)
  local arrival = debt > 0 and now + debt or 0
  redis.call('SET', key, struct.pack('<d', arrival), 'EX', ttl_s(debt / ticks_per_s))
end

if settles then
  return function(key, _, delta, _, now, ticks_per_s, _, burst, interval)
    local _, debt = load_debt(key, now, ticks_per_s, burst * interval)
    local most = math.max(debt, burst * interval)
    save_debt(key, now, math.min(math.max(debt + delta * interval, 0), most), ticks_per_s)
  end
end

local function judge(key, cost, now, ticks_per_s, rate, burst, interval)
  local ahead, debt = load_debt(key, now, ticks_per_s, burst * interval)
  local missing, retry_after = debt - burst * interval + cost * interval, 0
  if cost > burst then
    retry_after = -1
  elseif cost > 0 and missing > 0 then
    retry_after = missing
  end
  return retry_after, 0, ahead, debt, now
end

local function finish(
  key, cost, to_full, writes, now, ticks_per_s, rate, burst, interval, _, _, debt)
  local depth = burst * interval
  if cost > 0 then
    debt = math.min(debt + cost * interval, math.max(debt, depth))
  end
  if writes then
    save_debt(key, now, debt, ticks_per_s)
  end

  local room, remaining, next_after = depth - debt, 0, 0
  if room > 0 then
    remaining = (room - room % interval) / interval
  end
  if remaining < burst then
    next_after = (remaining + 1) * interval - room
  end
  return remaining, next_after, debt
end

return judge, finish
