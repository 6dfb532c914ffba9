--[[ What the algorithms and the driver share. KEYS, ARGV and reply: see driver.lua.

A number in Lua is a double: whole numbers are exact to 2^53. What stands in a key is made a whole
number of a known range before it is reckoned with; arguments are the proxy's own, as this program
is. Every call runs this text anew, so functions, what they refer to outside themselves, tables and
calls are few: a constant is a number on the spot, x - x % 1 rounds x down and x + -x % 1 rounds it
up, both exactly.
2^52     the greatest state and time: the sum of two such is still exact
2^32 - 1 the greatest cost, rate, burst and counter

An algorithm is two functions that decide, or where the call settles one that corrects:
judge   (key, cost, now, ticks_per_s, rate, a, b, c, at): reads the state at now (ticks) and judges;
        a, b, c are its parameters, what else it takes stands in args at at. Returns retry_after
        (0: allowed, -1: never, -2: unknown, else ticks), wait, ahead, and up to three values of
        state for finish: the first, a table of numbers, or the first two are what restore() of the
        twin takes; nil: now is not within the windows that were given
finish  (key, cost, to_full, writes, now, ticks_per_s, rate, a, b, c, at, and the state): takes
        cost, 0 for nothing; to_full: at most what brings the state to full. Remembers the state if
        it writes. Returns remaining, next_after, reset_after
settle  (key, kind, delta, charged_at, now, ticks_per_s, rate, a, b, c, at): corrects what was
        charged
ahead tells that the state was dated more than a second after now: the clock was set back. ]]
local args = ARGV[1]
if ARGV[2] then -- by hand: the same numbers as text
  local packed = {}
  for i = 1, #ARGV do
    packed[i] = struct.pack('<d', ARGV[i])
  end
  args = table.concat(packed)
end
local act, now_us = struct.unpack('<dd', args)
local settles = act == 1

-- For EX: expiry never decides. It comes a second or two after the state is
-- as if unused, in lifetime_s.
local function ttl_s(lifetime_s)
  return string.format('%d', math.min(lifetime_s - lifetime_s % 1 + 2, 2^31 - 1))
end

-- The two numbers that save_pair() left at key; 0, 0 if there are none, or none that make sense.
local function load_pair(key)
  local saved = redis.call('GET', key)
  if saved and #saved == 16 then
    local first, second = struct.unpack('<dd', saved)
    if first >= 1 and first <= 2^52 and second >= 0 and second <= 2^52 then
      return first - first % 1, second - second % 1
    end
  end
  return 0, 0
end

-- One value, so that no key is ever without an expiry.
local function save_pair(key, first, second, lifetime_s)
  redis.call('SET', key, struct.pack('<dd', first, second), 'EX', ttl_s(lifetime_s))
end

-- Whether the bucket of key was dated by a later clock, what is still taken of it at now, and
-- the time that it is dated to.
local function load_meter(key, now, ticks_per_s, rate)
  local taken, updated = load_pair(key)
  if updated > now then
    if updated > now + ticks_per_s then
      return true, taken, now
    end
    return false, taken, updated -- a small step back: no time passed
  end
  taken = taken - (now - updated) * rate
  return false, taken > 0 and taken or 0, now
end
