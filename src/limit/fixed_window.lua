--[[ Fixed window: the twin of fixed_window.c, in a program whose KEYS, ARGV and reply driver.lua
tells.

state  count, start: units admitted in the window that starts at start (ticks); absent: none
ARGV   period = ticks, offset = ticks from the epoch to the start of some window, kind (0: by the
       clock, 1: from the first request, 2: by the calendar, and then the four edges around now),
       after the rate = units per window; period <= 2^52 and now <= 2^52, so that their sum is exact
judged count = units in the window of now, window = its start, left = ticks until its end
cost   units, >= 0; 0 asks only
]]

if settles then
  -- The window of the charge is the latest, or it does not matter any more.
  return function(_, _, delta, charged_at, _, _, _, _, _, _, _, count, start)
    if count > 0 and charged_at >= start then
      return math.min(math.max(count + delta, 0), 2^52), start
    end
  end, nil, 16
end

local function judge(
  _, cost, now, ticks_per_s, rate, period, offset, kind, at, count, start)
  local ahead, dated, window, left = start > now + ticks_per_s, now, nil, nil
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
    local edges = {struct.unpack('<dddd', args, at)}
    if now < edges[1] or now >= edges[4] then
      return nil
    end
    -- A window that is later than all that are known lasts, as far as this call can tell, a period.
    window, left = dated, period
    for i = 4, 2, -1 do
      if dated < edges[i] then
        window, left = edges[i - 1], edges[i] - dated
      end
    end
  end
  if start < window then
    count = 0
  end

  local retry_after = 0
  if cost > rate then
    retry_after = -1
  elseif cost > 0 and count + cost > rate then
    retry_after = left
  end
  return retry_after, 0, ahead, count, window, left
end

local function finish(_, cost, to_full, _, _, _, rate, _, _, _, _, count, window, left)
  if cost > 0 then
    count = math.min(count + cost, to_full and math.max(count, rate) or 2^52)
  end
  local reset_after = count > 0 and left or 0
  return count < rate and rate - count or 0, reset_after, reset_after, count, window, left
end

return judge, finish, 16
