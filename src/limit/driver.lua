--[[ Judge a request against all its limits at one instant, and charge all of them if it is
admitted; or correct what was charged.

KEYS   one per charge, all of one slot
ARGV   one string of doubles, little endian; or the same numbers as text, one each, as a person
       writes
       1 what to do: 0 decides; 1 settles; 2 judges, and changes nothing; 3 decides for a request
         that is denied by others, so that at most those are charged which count denied requests; 4
         decides identical requests, one after another
       2 the time to do it at, us since the epoch; 0: the server's own TIME, read once
       then per charge: cost, algorithm number, flags (1: shadow, 2: denied requests count, 4:
         a bucket whose charges may be settled),
       tick_us, rate, three parameters, how many more come, and these: the slot of a concurrency
       limit as its upper and lower 32 bits, or the four edges (us) of a calendar's windows; with 4,
       behind all of them, how many are identical
       or per settlement: kind (0 corrects, 1 releases a slot, 2 renews it if it is there, 3 renews
       it or takes it anew), delta (units, signed), the time of the charge (us), and the same as for
       a charge
Reply  whole numbers, as a string of a NUL and doubles, or where the arguments were text as
       integers: the time (us), negative unless every limit that is enforced allows; then per
       charge: retry_after (0: allowed, -1: never, -2: unknown), wait, remaining, next_after,
       reset_after (ticks). wait describes the states before anything was charged, the others the
       states now; retry_after of what is allowed stays 0. Of identical ones, as integers: how many
       are admitted, the first ones; the time; then per charge the state before them, as restore()
       of the twin takes it. Last, only if the clock is behind the last change of a state that was
       charged: per charge the time that the state gives it (ticks), or 0: the time of the decision.
       Of settlements, as integers: the time; then the numbers, from 1 on, of those that were to
       renew a slot that is not there
Error  CLOCK: the time is not within the edges that were given, or later than 2^52 (the year 2112);
       nothing was changed ]]
if now_us == 0 then
  local time = redis.call('TIME')
  now_us = time[1] * 1000000 + time[2]
end
if now_us > 2^52 then
  -- States of then would be taken for none, and each request admitted.
  return redis.error_reply('CLOCK the clock of Redis is past 2112-09-17, the latest time there is')
end

local keys, n_keys = KEYS, #KEYS
local judges, identical = act == 2, act == 4
-- What is between --@ NAME and --@ end runs for algorithms that are functions; prelude.lua
-- describes what replaces it for the others. made is the number of the last such that was used,
-- judge and finish are its functions; when the call settles, judge is its settle().
local made, judge, finish
-- The charge at hand; those before it wait in before, from 2 on.
local key, number, cost, flags, now, ticks_per_s, rate, a, b, c, extras
local state_bytes, first, second, third, retry_after, wait, ahead, fits
-- What refill.h says of a bucket whose charges may be settled; behind its state in the same value.
local refill
local before = n_keys > 1 and {}
-- Whether all allow the request; how many of identical requests, and the states in the reply.
local admitted, n_admitted, states = act ~= 3, 2^32 - 1, identical and {0, now_us}
local times -- of the charges, by number, if one is later than now; else nil

local settled = settles and {now_us} -- the reply

-- Reads all and judges them, after which nothing can fail but a write; or settles them one by one.
-- The arguments of a charge take 72 bytes, of a settlement 24 more, those before the first 16.
local at = 17
for i = 1, n_keys do
  if i > 1 then
    before[i] = {
      key, number, cost, flags, now, ticks_per_s, rate, a, b, c, extras, judge, finish,
      state_bytes, first, second, third, retry_after, wait, ahead, fits, refill,
    }
  end

  local kind, delta, charged_at, tick_us, n_more
  if settles then
    kind, delta, charged_at = struct.unpack('<ddd', args, at)
    at = at + 24
  end
  cost, number, flags, tick_us, rate, a, b, c, n_more = struct.unpack('<ddddddddd', args, at)
  extras, at = at + 72, at + 72 + 8 * n_more
  key, now, ticks_per_s = keys[i], (now_us - now_us % tick_us) / tick_us, 1000000 / tick_us

  --@ state
  if number ~= made then
    made, judge, finish = number, make_algorithm(number)
  end
  state_bytes = nil -- its state is its own
  --@ end
  first, second, refill = 0, 0, nil
  local saved = state_bytes and redis.call('GET', key)
  if saved and (#saved == state_bytes or #saved == state_bytes + 32) then
    -- One number alone is a time and what is owed from then on; then q is where unpack() ended.
    local p, q = struct.unpack(state_bytes == 8 and '<d' or '<dd', saved)
    local most = state_bytes == 8 and 2^53 or 2^52
    if p >= 1 and p <= most and q >= 0 and q <= most then
      first, second = p - p % 1, q - q % 1
      if flags >= 4 and #saved > state_bytes then
        refill = {struct.unpack('<dddd', saved, state_bytes + 1)}
        refill[5] = nil -- where unpack() ended
        for j = 1, 4 do
          local number = refill and refill[j]
          if number and number >= 0 and number <= 2^52 then
            refill[j] = number - number % 1
          else
            refill = nil
          end
        end
      end
    end
  end

  if settles then
    local lifetime
    charged_at = (charged_at - charged_at % tick_us) / tick_us
    -- For buckets: ticks whose refill a refund must leave charged, nil: it gives back nothing; how
    -- many of them it does leave; whether the bucket was untouched before, or forgave a part.
    local unused, used, untouched, forgiven = nil, 0, false, false
    if state_bytes then
      unused = unused_refill(charged_at, now, ticks_per_s, second, flags, refill)
    end
    --@ settle
    if judge(key, kind, delta, charged_at, now, ticks_per_s, rate, a, b, c, extras) then
      settled[#settled + 1] = i
    end
    --@ end
    if state_bytes and first then
      local expiry = lifetime and {'EX', ttl_s(lifetime / ticks_per_s)} or {'KEEPTTL'}
      local packed = struct.pack(state_bytes == 8 and '<d' or '<dd', first, second)
      if flags >= 4 then
        packed = packed ..
          settle_refill(refill, charged_at, used, untouched, forgiven, now, ticks_per_s)
      end
      redis.call('SET', key, packed, unpack(expiry))
    end
  else
    retry_after, wait, ahead = 0, 0, false
    --@ judge
    retry_after, wait, ahead, first, second, third =
      judge(key, cost, now, ticks_per_s, rate, a, b, c, extras)
    --@ end
    admitted = admitted and (retry_after == 0 or flags % 2 == 1)
  end

  if identical then
    if type(first) == 'table' then
      for j = 1, #first do
        states[#states + 1] = first[j]
      end
    else
      states[#states + 1], states[#states + 2] = first, second
    end
    local charged, to_full, writes = 0, false, false
    local judged_first, judged_second = first, second
    local remaining, next_after, reset_after, lifetime = 0, 0, 0, nil
    --@ finish
    remaining = finish(
      key, charged, to_full, writes, now, ticks_per_s, rate, a, b, c, extras, first, second, third)
    --@ end
    first, second = judged_first, judged_second
    fits = cost > 0 and (remaining - remaining % cost) / cost or 2^32 - 1
    n_admitted = flags % 2 == 1 and n_admitted or math.min(n_admitted, fits)
  end
end
if settles then
  return settled
end
if identical then
  -- One that is denied takes nothing, so that all after it are denied too.
  n_admitted = math.min(n_admitted, (struct.unpack('<d', args, at)))
end

-- Charges all, the last one first, and reports them.
local reported = ''
for i = n_keys, 1, -1 do
  local passes, charged = admitted and retry_after == 0, 0
  if identical then
    charged = cost * math.min(n_admitted, fits)
  elseif not judges and (passes or flags % 4 >= 2) then
    charged = cost
  end
  local to_full, writes = not passes, charged > 0 or (ahead and not judges)
  local was_untouched = first == 0
  local remaining, next_after, reset_after, lifetime = 0, 0, 0, nil
  --@ finish
  remaining, next_after, reset_after = finish(
    key, charged, to_full, writes, now, ticks_per_s, rate, a, b, c, extras, first, second, third)
  --@ end
  if writes and state_bytes then
    -- One value, so that no key is ever without an expiry.
    local packed = struct.pack(state_bytes == 8 and '<d' or '<dd', first, second)
    if flags >= 4 then
      local latest = now + ticks_per_s
      if charged > 0 and (was_untouched or not refill or refill[1] == 0 or refill[1] > latest or
        refill[4] > latest) then
        refill = {now, now, 0, now}
      end
      packed = refill and packed .. struct.pack('<dddd', unpack(refill)) or packed
    end
    redis.call('SET', key, packed, 'EX', ttl_s(lifetime / ticks_per_s))
  end
  if charged > 0 and (second > now or refill and refill[1] > now) then
    times = times or {}
    times[i] = refill and refill[1] > second and refill[1] or second
  end
  if charged > 0 and retry_after ~= 0 then
    -- A client that waits no longer than was reported before would be denied for ever.
    retry_after, wait, ahead = 0, 0, false
    --@ judge
    retry_after = judge(key, cost, now, ticks_per_s, rate, a, b, c, extras)
    --@ end
  end

  if i == 1 and not identical then
    reported = struct.pack(
      '<bdddddd', 0, admitted and now_us or -now_us, retry_after, wait, remaining, next_after,
      reset_after) .. reported
  elseif not identical then
    reported =
      struct.pack('<ddddd', retry_after, wait, remaining, next_after, reset_after) .. reported
  end
  if i > 1 then
    key, number, cost, flags, now, ticks_per_s, rate, a, b, c, extras, judge, finish, state_bytes,
      first, second, third, retry_after, wait, ahead, fits, refill = unpack(before[i], 1, 22)
  end
end

for i = 1, times and n_keys or 0 do
  if identical then
    states[#states + 1] = times[i] or 0
  else
    reported = reported .. struct.pack('<d', times[i] or 0)
  end
end
if identical then
  states[1] = n_admitted
  return states
end
if ARGV[2] then
  local reply = {}
  for from = 2, #reported, 8 do
    reply[#reply + 1] = struct.unpack('<d', reported, from)
  end
  return reply
end
return reported
