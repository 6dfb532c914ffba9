--[[ Concurrency: the twin of concurrency.c, in a program whose KEYS, ARGV and reply
driver.lua describes.

key    a sorted set: slots, by the end of their lease (ticks); absent: none
ARGV   lease = ticks, after the rate = slots, and then the slot to take; a time plus a lease is
       exact
state  a table: n = slots taken at now, n_ended = those whose lease has ended, next = when so many
       of them end that one is free, latest = when the last ends; and whether ahead
cost   one slot, whatever it is; 0 asks only
]]
-- Ends of leases in order; scores of ours are whole numbers.
local function end_of(key, from)
  local found = redis.call('ZRANGE', key, from, from, 'WITHSCORES')
  local ends = found[2] and math.min(math.max(found[2] + 0, 0), 2^53) or 0
  return ends - ends % 1
end

local function expire_slots(key, latest, now, ticks_per_s)
  redis.call('EXPIRE', key, ttl_s(math.max(latest - now, 0) / ticks_per_s))
end

-- Leases that a later clock gave end as if they began now.
local function follow_slots(key, latest)
  local slots = redis.call('ZRANGEBYSCORE', key, string.format('(%.0f', latest), '+inf')
  for i = 1, #slots do
    redis.call('ZADD', key, latest, slots[i])
  end
end

local function count_slots(state)
  local n_all = redis.call('ZCARD', state.key)
  state.n, state.n_ended, state.next, state.latest = 0, 0, 0, 0
  if n_all > 0 then
    local n_ended = redis.call('ZCOUNT', state.key, '-inf', state.now)
    state.n, state.n_ended = n_all - n_ended, n_ended
    if state.n > 0 then
      state.next = end_of(state.key, n_ended + math.max(state.n - state.rate, 0))
      state.latest = end_of(state.key, -1)
    end
  end
end

-- What has ended makes room. A slot that was taken already is taken anew. The key is never gone in
-- between: a node of a cluster that gives its slot away would not make it again.
local function take_slot(state, ends)
  local is_new = redis.call('ZADD', state.key, ends, state.slot) == 1
  if state.n_ended > 0 then
    redis.call('ZREMRANGEBYSCORE', state.key, '-inf', state.now)
  end
  if not is_new then
    count_slots(state)
  elseif state.n == 0 then
    state.n, state.next, state.latest = 1, ends, ends
  else
    state.n, state.next = state.n + 1, math.min(state.next, ends)
    state.latest = math.max(state.latest, ends)
  end
end

local function slot_at(at)
  return struct.pack('<I4I4', struct.unpack('<dd', args, at))
end

if settles then
  -- A slot that is gone was lost, or given back by a release that a connection brought earlier:
  -- whether its request is in flight only the proxy knows, which then takes it anew.
  return function(key, kind, _, _, now, ticks_per_s, _, lease, _, _, at)
    local slot = slot_at(at)
    if kind == 1 then -- release
      redis.call('ZREM', key, slot)
    elseif kind == 2 and redis.call('ZADD', key, 'XX', 'CH', now + lease, slot) == 0 then
      return true -- it is gone, or was taken at now: then it may be taken once more
    elseif kind >= 2 then
      if kind == 3 then -- take anew
        redis.call('ZADD', key, now + lease, slot)
      end
      expire_slots(key, end_of(key, -1), now, ticks_per_s)
    end
  end
end

local function judge(key, cost, now, ticks_per_s, rate, lease)
  local state = {
    key = key, rate = rate, slot = '', now = now, n = 0, n_ended = 0, next = 0, latest = 0,
  }
  count_slots(state)
  local longest = now + lease
  local ahead = state.latest > longest + ticks_per_s
  if ahead then
    state.next, state.latest = math.min(state.next, longest), longest
  end
  return cost > 0 and state.n >= rate and -2 or 0, 0, ahead, state, now, ahead
end

local function finish(
  key, cost, to_full, writes, now, ticks_per_s, rate, lease, _, _, at, state, _, ahead)
  if writes and ahead then
    follow_slots(key, now + lease)
  end
  if cost > 0 then
    state.slot = slot_at(at)
    take_slot(state, now + lease)
  end
  if writes then
    expire_slots(key, state.latest, now, ticks_per_s)
  end
  if state.n > 0 then
    return math.max(rate - state.n, 0), state.next - now, state.latest - now
  end
  return rate, 0, 0
end

return judge, finish
