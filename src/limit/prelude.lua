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

An algorithm whose state is one or two numbers is written in place: sections, each under a line of
"--@" and its name, which the program has where driver.lua has the same line. They read and set the
locals of the driver; there is no function to make, nor to call with a dozen arguments. From such a
line in driver.lua to the next "--@ end" stands what is done for all other algorithms.
state   sets state_bytes: 16, two numbers, or 8, one. The driver reads and writes them, as first and
        second: 0 of a key that is absent, or makes no sense
judge   judges the state at now (ticks); a, b, c are its parameters, what else it takes stands in
        args at extras. Sets retry_after (0: allowed, -1: never, -2: unknown, else ticks), wait, if
        it allows, and ahead, which are 0, 0 and false before; and first, second and third to what
        finish needs, of which the first two are what restore() of the twin takes; second is also
        the time that the state gives to a charge, if it is later than now. It may return an error.
        After a charge it judges once more, at the same now, what finish left, and must not fail
        then
finish  takes charged units, 0 for nothing; to_full: at most what brings the state to full. Sets
        remaining, next_after, reset_after, which are 0 before, first and second to what is to be
        remembered, and lifetime to how long that matters (ticks); leaves third as it is
settle  corrects by delta what was charged at charged_at (ticks): sets the state, and lifetime, nil:
        as long as before; or first to nil, if there is nothing to correct. What is taken counts as
        of now, what is given back as of the charge. A bucket that gives back
        leaves the refill of unused ticks charged, at most what it would give, and sets used to how
        many of them that is; nil: it gives back nothing. It sets untouched if it was so before, and
        forgiven to the time if it could not take all

Any other is two functions that decide, or where the call settles one that corrects:
judge   (key, cost, now, ticks_per_s, rate, a, b, c, at): what else it takes stands in args at at.
        Returns retry_after, wait, ahead, and up to three values for finish, which describe the
        state at now: the first, a table of numbers, or the first two are what restore() takes; the
        second is a time, as above
finish  (key, charged, to_full, writes, now, ticks_per_s, rate, a, b, c, at, and those of judge):
        remembers the state if it writes. Returns remaining, next_after, reset_after
settle  (key, kind, delta, charged_at, now, ticks_per_s, rate, a, b, c, at): returns true if it
        renews a slot that is not there

ahead: the state was dated more than a second after now: the clock was set back. ]]
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

-- The twin of refill.h, for buckets: since, seam, before, used.
local unused_refill, settle_refill
if settles then
  unused_refill = function(charged_at, now, ticks_per_s, dated, flags, refill)
    local latest = now + ticks_per_s
    local time = dated > now and dated <= latest and dated or now
    local since, seam, before, used = 0, 0, 0, 0
    if refill then
      since, seam, before, used = refill[1], refill[2], refill[3], refill[4]
      if since > latest or used > latest then
        since, seam, before, used = now, now, 0, now
      end
    end
    if charged_at < since or charged_at > latest then
      return nil
    end
    local ticks = math.max(time - math.max(used, charged_at), 0)
    if charged_at < seam then
      ticks = ticks + math.min(seam - charged_at, before)
    end
    return ticks
  end
  settle_refill = function(refill, charged_at, ticks, untouched, forgiven, now, ticks_per_s)
    local latest = now + ticks_per_s
    refill = refill or {0, 0, 0, 0}
    if refill[1] > latest or refill[4] > latest then
      refill = {now, now, 0, now}
    elseif untouched then
      local since = math.min(charged_at, now)
      refill = {since, since, 0, since}
    end
    local since, seam, before, used = unpack(refill, 1, 4)
    if forgiven then
      since = math.min(math.max(forgiven, since) + 1, latest, 2^52)
      seam, before, used = since, 0, since
    end
    if ticks > 0 then
      if charged_at > used then
        before, seam, used = before + charged_at - used, charged_at, charged_at
      elseif charged_at < seam then
        local early = math.min(ticks, before)
        before, ticks = before - early, ticks - early
      end
      used = used + ticks
    end
    return struct.pack('<dddd', since, seam, before, used)
  end
end
