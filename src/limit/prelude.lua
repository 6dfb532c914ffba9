--[[ What the algorithms and the driver share. KEYS, ARGV and reply: see driver.lua.

A number in Lua is a double: whole numbers are exact to 2^53. Whatever comes from outside is made a
whole number of a known range before it is reckoned with, and numbers become text by %.0f alone.
Every call runs this text anew: tables are made with all their fields, and calls are few.

An algorithm is a table of functions:
read      (key, at, now, ticks_per_s, rate): the state, judged at now (ticks), of the limit whose
          parameters are ARGV[at] and on; and where the next charge's arguments are
evaluate  (state, cost): allowed (0, 1), remaining, retry_after (-1: never, -2: unknown), next_after,
          reset_after, wait
charge    (state, cost, to_full): take it; to_full: at most what brings the state to full
tell      (key, state): what key holds, before any charge, as whole numbers: the state of the twin;
          absent where requests alike are not decided as one call
write     (key, state): remember it
settle    (key, at, now, ticks_per_s, rate, kind, delta, charged_at): correct what was charged; where
          the next settlement's arguments are
state.ahead tells that the state was dated more than a second after now: the clock was set back. ]]
local EXACT_MAX = 4503599627370496 -- 2^52: the sum of two such is still exact
local UNITS_MAX = 4294967295 -- of a cost, a rate, a burst and a counter
local ceil, floor = math.ceil, math.floor

-- number cut to [min, max], and rounded down.
local function clamp(number, min, max)
  if number >= min and number <= max then
    return number - number % 1
  end
  return number > max and max or min
end

-- The two numbers that save_pair() left at key; 0, 0 if there is none, or the first is 0.
local function load_pair(key)
  local saved = redis.call('GET', key)
  if not saved then
    return 0, 0
  end
  local first, second = string.match(saved, '^(%d+) (%d+)$')
  if not first or first == '0' then
    return 0, 0
  end
  return clamp(first + 0, 0, EXACT_MAX), clamp(second + 0, 0, EXACT_MAX)
end

-- For PX: expiry never decides. It comes a second after the state is as if unused, in lifetime_s.
local function ttl_ms(lifetime_s)
  return string.format('%.0f', ceil(math.min(lifetime_s * 1000, EXACT_MAX)) + 1000)
end

-- One value, so that no key is ever without an expiry.
local function save_pair(key, first, second, lifetime_s)
  redis.call('SET', key, string.format('%.0f %.0f', first, second), 'PX', ttl_ms(lifetime_s))
end

-- What a bucket's key says is still taken at now; the time that it is dated to; whether it was ahead.
local function load_meter(key, now, ticks_per_s, rate)
  local taken, updated = load_pair(key)
  if updated > now + ticks_per_s then
    return taken, now, true
  end
  if updated > now then
    return taken, updated, false -- a small step back: no time passed
  end
  taken = taken - (now - updated) * rate
  return taken > 0 and taken or 0, now, false
end
