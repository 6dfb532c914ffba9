--[[ Judge a request against all its limits at one instant, and charge all of them if it is
admitted; or correct what was charged.

KEYS   one per charge, all of one slot
ARGV   one string of doubles, little endian; or the same numbers as text, one each, as a person
       writes
       1 what to do: 0 decides; 1 settles; 2 judges, and changes nothing; 3 decides for a request
         that is denied by others, so that at most those are charged which count denied requests; 4
         decides requests alike, one after another
       2 the time to do it at, us since the epoch; 0: the server's own TIME, read once
       then per charge: cost, algorithm number, flags (1: shadow, 2: denied requests count),
       tick_us, rate, three parameters, how many more come, and these: the slot of a concurrency
       limit as its upper and lower 32 bits, or the four edges (us) of a calendar's windows; with 4,
       behind all of them, how many are alike
       or per settlement: kind (0 corrects, 1 releases a slot, 2 renews it), delta (units, signed),
       the time of the charge (us), and the same as for a charge
Reply  whole numbers, as a string of a NUL and doubles, or where the arguments were text as
       integers: the time (us), negative unless every limit that is enforced allows; then per
       charge: retry_after (0: allowed, -1: never, -2: unknown), wait, remaining, next_after,
       reset_after (ticks). wait tells how things stood before anything was charged, the others how
       they stand now; retry_after of what is allowed stays 0. A settlement's, as integers: the
       time. Of those alike, as integers: how many are admitted, the first ones; the time; then per
       charge the state before them, as restore() of the twin takes it
Error  CLOCK: the time is not within the edges that were given; nothing was changed ]]
if now_us == 0 then
  local time = redis.call('TIME')
  now_us = time[1] * 1000000 + time[2]
end

-- The functions of the algorithm that was used last, whose number is made. The arguments of a
-- charge take 72 bytes, of a settlement 24 more, those before the first 16.
local made, judge, finish

local strange_clock = 'CLOCK the time is not within the windows that were given'

if settles then
  local settle
  local at = 17
  for i = 1, #KEYS do
    local kind, delta, charged_at, _, number, _, tick_us, rate, a, b, c, n_more =
      struct.unpack('<dddddddddddd', args, at)
    at = at + 96
    if number ~= made then
      made, settle = number, make_algorithm(number)
    end
    settle(
      KEYS[i], kind, delta, (charged_at - charged_at % tick_us) / tick_us,
      (now_us - now_us % tick_us) / tick_us, 1000000 / tick_us, rate, a, b, c, at)
    at = at + 8 * n_more
  end
  return {now_us}
end

if act == 4 then
  local reply = {0, now_us}

  -- As decide_from() below, of requests of which so many as fit may yet be admitted; returns how
  -- many are. One that is denied takes nothing, so that all after it are denied too.
  local function decide_alike_from(i, at, fit)
    local key = KEYS[i]
    if not key then
      return math.min(fit, (struct.unpack('<d', args, at)))
    end
    local cost, number, flags, tick_us, rate, a, b, c, n_more =
      struct.unpack('<ddddddddd', args, at)
    local now, ticks_per_s = (now_us - now_us % tick_us) / tick_us, 1000000 / tick_us
    at = at + 72
    if number ~= made then
      made, judge, finish = number, make_algorithm(number)
    end
    local finish = finish
    local retry_after, _, ahead, x, y, z = judge(key, cost, now, ticks_per_s, rate, a, b, c, at)
    if not retry_after then
      return nil
    end
    for _, number in ipairs(type(x) == 'table' and x or {x, y}) do
      reply[#reply + 1] = number
    end

    local remaining = finish(key, 0, false, false, now, ticks_per_s, rate, a, b, c, at, x, y, z)
    local fits = cost > 0 and (remaining - remaining % cost) / cost or 2^32 - 1
    local admitted =
      decide_alike_from(i + 1, at + 8 * n_more, flags % 2 == 1 and fit or math.min(fit, fits))
    if not admitted then
      return nil
    end
    local taken = cost * math.min(admitted, fits)
    if taken > 0 or ahead then
      finish(key, taken, false, true, now, ticks_per_s, rate, a, b, c, at, x, y, z)
    end
    return admitted
  end

  reply[1] = decide_alike_from(1, 17, 2^32 - 1)
  return reply[1] and reply or redis.error_reply(strange_clock)
end

local judges = act == 2

-- Judges the charges from the i-th, whose arguments are at at, and on; then, if these and those
-- before (so_far) allow, charges them, the last one first. Returns whether all allow, and what the
-- reply tells of them; nil: the time is not within the windows. Until all have been judged nothing
-- is written: from then on nothing can fail but a write.
local function decide_from(i, at, so_far)
  local key = KEYS[i]
  if not key then
    return so_far, ''
  end
  local cost, number, flags, tick_us, rate, a, b, c, n_more = struct.unpack('<ddddddddd', args, at)
  local now, ticks_per_s = (now_us - now_us % tick_us) / tick_us, 1000000 / tick_us
  at = at + 72
  if number ~= made then
    made, judge, finish = number, make_algorithm(number)
  end
  local judge, finish = judge, finish
  local retry_after, wait, ahead, x, y, z = judge(key, cost, now, ticks_per_s, rate, a, b, c, at)
  if not retry_after then
    return nil
  end

  local allows = retry_after == 0
  local admitted, told =
    decide_from(i + 1, at + 8 * n_more, so_far and (allows or flags % 2 == 1))
  if admitted == nil then
    return nil
  end
  local passes = admitted and allows
  local takes = cost > 0 and (passes or flags >= 2) and not judges
  local writes = takes or (ahead and not judges)
  local remaining, next_after, reset_after = finish(
    key, takes and cost or 0, not passes, writes, now, ticks_per_s, rate, a, b, c, at, x, y, z)
  if takes and not allows then
    -- Who waits no longer than was said before would be denied for ever.
    retry_after = judge(key, cost, now, ticks_per_s, rate, a, b, c, at)
  end
  return admitted,
    struct.pack('<ddddd', retry_after, wait, remaining, next_after, reset_after) .. told
end

local admitted, told = decide_from(1, 17, act ~= 3)
if admitted == nil then
  return redis.error_reply(strange_clock)
end
told = struct.pack('<bd', 0, admitted and now_us or -now_us) .. told
if ARGV[2] then
  local reply = {}
  for from = 2, #told, 8 do
    reply[#reply + 1] = struct.unpack('<d', told, from)
  end
  return reply
end
return told
