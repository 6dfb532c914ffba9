--[[ What the algorithms and the driver share. KEYS, ARGV and reply: see driver.lua.

A number in Lua is a double: whole numbers are exact to 2^53. What stands in a key is made a whole
number of a known range before it is reckoned with; arguments are the proxy's own, as this program
is. x - x % 1 rounds x down and x + -x % 1 rounds it up, both exactly.
2^52     the greatest state and time: the sum of two such is still exact
2^32 - 1 the greatest cost, rate, burst and counter

Every call runs this text anew, and what it makes on the way costs twice: each function, table and
string, and each local that a function refers to outside itself, takes time to make, and at every
fiftieth call Redis lets Lua collect garbage, the longer the more there is, while all callers wait.
So on the way of a decision these are few, and a constant is a number on the spot.

An algorithm is two functions that decide, or where the call settles one that corrects and nil; and
the bytes of its state: 16, two numbers, or 8, one, which the driver reads and writes; nil: the
functions do both by themselves. Of a key that is absent, or makes no sense, the numbers are 0.
judge   (key, cost, now, ticks_per_s, rate, a, b, c, at, first, second): judges the state, whose
        numbers are first and second, at now (ticks); a, b, c are the algorithm's parameters, what
        else it takes stands in args at at. Returns retry_after (0: allowed, -1: never, -2: unknown,
        else ticks), wait, ahead, and up to three values for finish, which tell of the state at now:
        the first, a table of numbers, or the first two are what restore() of the twin takes; nil:
        now is not within the windows that were given
finish  (key, cost, to_full, writes, now, ticks_per_s, rate, a, b, c, at, and those of judge): takes
        cost, 0 for nothing; to_full: at most what brings the state to full. Returns remaining,
        next_after, reset_after, and then the numbers of the state and how long it matters (ticks);
        where the state is its own, remembers it if it writes
settle  (key, kind, delta, charged_at, now, ticks_per_s, rate, a, b, c, at, first, second): corrects
        what was charged. Returns the numbers of the state and how long it matters, nil: as long as
        before; nothing, if there is nothing to correct, or where the state is its own
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
