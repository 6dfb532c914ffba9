--[[ Fixed window: the twin of fixed_window.c, in place in a program whose KEYS, ARGV and reply
driver.lua describes.

state  count, start: units admitted in the window that starts at start (ticks); absent: none
ARGV   period = ticks, offset = ticks from the epoch to the start of some window, kind (0: by the
       clock, 1: from the first request, 2: by the calendar, and then the four edges around now),
       after the rate = units per window; period <= 2^52 and now <= 2^52, so that their sum is exact
judged count = units in the window of now, its start, and left = ticks until its end
cost   units, >= 0; 0 asks only
]]
--@ state
state_bytes = 16

--@ judge
local period, offset, kind, count, start = a, b, c, first, second
local dated, window, left = now, nil, nil
ahead = start > now + ticks_per_s
if start > now and not ahead then
  dated = start -- a small step back: no time passed
end
if kind == 0 then
  local into = (dated - offset) % period
  window, left = dated >= into and dated - into or 0, period - into
elseif kind == 1 then
  window = start < dated and start or dated
  if count == 0 or dated - window >= period then
    count, window = 0, dated
  end
  left = window + period - dated
else
  local edges = {struct.unpack('<dddd', args, extras)}
  if now < edges[1] or now >= edges[4] then
    return redis.error_reply('CLOCK the clocks of Redis and of the proxy differ by more than ' ..
                             'one window of the calendar')
  end
  -- A window that is later than all that are known lasts, as far as this call can tell, a period.
  window, left = dated, period
  for edge = 4, 2, -1 do
    if dated < edges[edge] then
      window, left = edges[edge - 1], edges[edge] - dated
    end
  end
  if start > window and start <= dated then
    window = start -- of a proxy with another zone database: moved back, it would be forgotten there
  end
end
if start < window then
  count = 0
end
left = left + dated - now

if cost > rate then
  retry_after = -1
elseif cost > 0 and count + cost > rate then
  retry_after = left
end
first, second, third = count, window, left

--@ finish
local count, left = first, third
if charged > 0 then
  count = math.min(count + charged, to_full and math.max(count, rate) or 2^52)
end
remaining = count < rate and rate - count or 0
reset_after = count > 0 and left or 0
next_after = reset_after
first, lifetime = count, left

--@ settle
-- What is taken counts in the window of now; of a calendar, whose edges a settlement does not have,
-- in the latest window. What is given back is of the window of the charge: that is the latest, or
-- it does not matter any more.
local period, offset, kind, count, start = a, b, c, first, second
if delta > 0 and kind < 2 then
  local dated, window, left = now, nil, nil
  if start > now and start <= now + ticks_per_s then
    dated = start
  end
  if kind == 0 then
    local into = (dated - offset) % period
    window, left = dated >= into and dated - into or 0, period - into
    count = start >= window and count or 0
  else
    window = start < dated and start or dated
    if count == 0 or dated - window >= period then
      count, window = 0, dated
    end
    left = window + period - dated
  end
  first, second, lifetime = math.min(count + delta, 2^52), window, left + dated - now
elseif count > 0 and (delta > 0 or charged_at >= start) then
  first = math.min(math.max(count + delta, 0), 2^52)
else
  first = nil
end
