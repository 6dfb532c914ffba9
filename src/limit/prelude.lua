--[[ What the algorithms and the driver share. KEYS, ARGV and reply: see driver.lua.

A number in Lua is a double: whole numbers are exact to 2^53. Whatever comes from outside is made a
whole number of a known range before it is reckoned with, and numbers become text by %.0f alone.
Every call runs this text anew: tables are made with all their fields, and calls are few. ]]
local EXACT_MAX = 4503599627370496 -- 2^52: the sum of two such is still exact
local ceil, floor = math.ceil, math.floor

local algorithms = {}

-- number cut to [min, max], and rounded down.
local function clamp(number, min, max)
  if number >= min and number <= max then
    return number - number % 1
  end
  return number > max and max or min
end

-- The two numbers that save_pair() left at key; 0, 0 if there is none.
local function load_pair(key)
  local saved = redis.call('GET', key)
  if not saved then
    return 0, 0
  end
  local first, second = string.match(saved, '^(%d+) (%d+)$')
  if not first then
    return 0, 0
  end
  return clamp(first + 0, 0, EXACT_MAX), clamp(second + 0, 0, EXACT_MAX)
end

-- One value, so that no key is ever without an expiry. Expiry never decides: it comes a second after
-- the state is as if unused, in lifetime_s from now.
local function save_pair(key, first, second, lifetime_s)
  local ttl_ms = ceil(math.min(lifetime_s * 1000, EXACT_MAX)) + 1000
  redis.call('SET', key, string.format('%.0f %.0f', first, second), 'PX', string.format('%.0f', ttl_ms))
end
