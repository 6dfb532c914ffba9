--[[ Concurrency: the twin of concurrency.c, in a program whose KEYS, ARGV and reply driver.lua tells.

key    a sorted set: slots, by the end of their lease (ticks); absent: none
ARGV   lease = ticks, the slot to take, after the rate = slots; a time plus a lease is exact
state  n = slots taken at now, n_ended = those whose lease has ended, next = when so many of them end that one is free, latest = when the last
       ends, ahead
cost   one slot, whatever it is; 0 asks only
]]

-- Ends of leases in order; scores of ours are whole numbers.
local function end_of(key, from)
  local found = redis.call('ZRANGE', key, from, from, 'WITHSCORES')
  return found[2] and clamp(found[2] + 0, 0, 2 * EXACT_MAX) or 0
end

local function expire_slots(key, latest, now, ticks_per_s)
  redis.call('PEXPIRE', key, ttl_ms(math.max(latest - now, 0) / ticks_per_s))
end

-- Leases that a later clock gave end as if they began now.
local function follow_slots(key, latest)
  local score = string.format('%.0f', latest)
  local slots = redis.call('ZRANGEBYSCORE', key, '(' .. score, '+inf')
  for i = 1, #slots do
    redis.call('ZADD', key, score, slots[i])
  end
end

local function count_slots(state)
  local n_all = redis.call('ZCARD', state.key)
  state.n, state.n_ended, state.next, state.latest = 0, 0, 0, 0
  if n_all > 0 then
    local n_ended = redis.call('ZCOUNT', state.key, '-inf', string.format('%.0f', state.now))
    state.n, state.n_ended = n_all - n_ended, n_ended
    if state.n > 0 then
      state.next = end_of(state.key, n_ended + math.max(state.n - state.rate, 0))
      state.latest = end_of(state.key, -1)
    end
  end
end

-- What has ended makes room first. A slot that was taken already is taken anew.
local function take_slot(state, ends)
  if state.n_ended > 0 then
    redis.call('ZREMRANGEBYSCORE', state.key, '-inf', string.format('%.0f', state.now))
  end
  if redis.call('ZADD', state.key, string.format('%.0f', ends), state.slot) == 0 then
    count_slots(state)
  elseif state.n == 0 then
    state.n, state.next, state.latest = 1, ends, ends
  else
    state.n, state.next = state.n + 1, math.min(state.next, ends)
    state.latest = math.max(state.latest, ends)
  end
end

local concurrency = {
  has_slots = true,

  read = function(key, at, now, ticks_per_s, rate)
    local state = {
      key = key, rate = rate, lease = clamp(ARGV[at] + 0, 1, EXACT_MAX), slot = ARGV[at + 1],
      ticks_per_s = ticks_per_s, now = now, n = 0, n_ended = 0, next = 0, latest = 0,
      takes = false, ahead = false,
    }
    count_slots(state)
    local longest = now + state.lease
    if state.latest > longest + ticks_per_s then
      state.ahead = true
      state.next, state.latest = math.min(state.next, longest), longest
    end
    return state, at + 2
  end,

  evaluate = function(state, cost)
    local n, rate, now = state.n, state.rate, state.now
    local remaining = n < rate and rate - n or 0
    local allowed, retry_after, next_after, reset_after = 1, 0, 0, 0
    if cost > 0 and remaining == 0 then
      allowed, retry_after = 0, -2
    end
    if n > 0 then
      next_after, reset_after = state.next - now, state.latest - now
    end
    return allowed, remaining, retry_after, next_after, reset_after, 0
  end,

  charge = function(state)
    state.takes = true
  end,

  write = function(key, state)
    local ends = state.now + state.lease
    if state.ahead then
      follow_slots(key, ends)
    end
    if state.takes then
      take_slot(state, ends)
    end
    expire_slots(key, state.latest, state.now, state.ticks_per_s)
  end,

  -- A slot that is no more, or whose lease has ended, stays gone.
  settle = function(key, at, now, ticks_per_s, rate, kind)
    local lease, slot = clamp(ARGV[at] + 0, 1, EXACT_MAX), ARGV[at + 1]
    if kind == '1' then
      redis.call('ZREM', key, slot)
    elseif kind == '2' then
      local ends = redis.call('ZSCORE', key, slot)
      if ends and ends + 0 > now then
        redis.call('ZADD', key, string.format('%.0f', now + lease), slot)
        expire_slots(key, end_of(key, -1), now, ticks_per_s)
      end
    end
    return at + 2
  end,
}
