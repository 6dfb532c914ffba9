--[[ Sliding log: the twin of sliding_log.c, in a program whose KEYS, ARGV and reply
driver.lua describes.

key    a list, each packed: the units of all entries, then the entries, oldest first, each at, units
       (ticks); absent: none. Entries may be equal: their index distinguishes them
ARGV   period = ticks, after the rate = units per period; period <= 2^52
state  a table: now = ticks, units = of the entries in the window, first = the oldest of them, n =
       the newest, as indexes in the list; ats, costs = of the entries by index, as far as they were
       read: loaded is the last; saved = entries in the list; kept = those that stay, dropped =
       those that a write dropped; exists = the list does; newest = time of the latest, ahead
cost   units, >= 0; 0 asks only
]]
local LOG_CHUNK = 8 -- entries read at once at first; each chunk is twice as long as the one before
local LOG_WALK = 56 -- entries summed up to tell when units pass: the first three chunks
local LOG_SUMMED = 512 -- entries read at once where thousands are
local LOG_LEFT = 8 -- as many entries that have left stay in the list until the next charge

local function read_entry(packed)
  if packed and #packed == 16 then
    local at, units = struct.unpack('<dd', packed)
    if at >= 0 and at <= 2^52 and units >= 0 and units <= 2^32 - 1 then
      return at - at % 1, units - units % 1
    end
  end
  return 0, 0
end

local function format_entry(at, units)
  return struct.pack('<dd', at, units)
end

local function read_units(packed)
  local units = packed and #packed == 8 and struct.unpack('<d', packed) or 0
  return units >= 0 and units <= 2^52 and units - units % 1 or 0
end

-- Time, at most now, and units of the entry at index i, which is at most the newest.
local function log_entry(state, i)
  while i > state.loaded and state.loaded < state.kept do
    local from = state.loaded + 1 - state.dropped
    local chunk = redis.call('LRANGE', state.key, from, from + state.chunk - 1)
    for j = 1, #chunk do
      state.ats[state.loaded + j], state.costs[state.loaded + j] = read_entry(chunk[j])
    end
    state.loaded, state.chunk = state.loaded + #chunk, state.chunk * 2
  end
  local at = state.ats[i]
  return at < state.now and at or state.now, state.costs[i]
end

-- The time, at most now, of the entry at index i alone, which is at most the newest.
local function log_time(state, i)
  local at = state.ats[i]
  if not at then
    at, state.costs[i] = read_entry(redis.call('LINDEX', state.key, i - state.dropped))
    state.ats[i] = at
  end
  return at < state.now and at or state.now
end

-- Ticks until cost units, at most the rate, pass: until enough of the oldest have left. Beyond
-- LOG_WALK entries the earliest time at which that can be, as sliding_log.c says. (What another
-- program wrote need not be in order, nor its sum be right: the wait is a tick at least.)
local function log_passes_after(state, cost)
  local units, i, at, gone = state.units, state.first, state.now - state.period, 0
  local last = math.min(state.n, state.first + LOG_WALK - 1)
  while units + cost > state.rate and i <= last do
    at, gone = log_entry(state, i)
    units, i = units - gone, i + 1
  end
  if units + cost > state.rate and i <= state.n then
    local above_one = math.max(units - (state.n - i + 1), 0)
    local n_leave = math.max(units + cost - state.rate - above_one, 1)
    at = log_time(state, math.min(i + n_leave - 1, state.n))
  end
  return math.max(at + state.period - state.now, 1) + state.still
end

-- What is dated after now becomes one entry of now.
local function follow_log(state)
  local units, last = 0, state.n
  while last >= state.first do
    log_entry(state, last)
    if state.ats[last] <= state.now then
      break
    end
    units, last = units + state.costs[last], last - 1
  end
  state.kept, state.n = last, last + 1
  state.ats[state.n], state.costs[state.n] = state.now, math.min(units, 2^32 - 1)
  state.units = state.units - units + state.costs[state.n]
end

-- The log of key, as it stands at now but for what has left since it was written.
local function load_log(key, now, ticks_per_s, rate, period)
  local length = redis.call('LLEN', key)
  local saved = math.max(length - 1, 0)
  local head = saved > 0 and redis.call('LRANGE', key, 0, LOG_CHUNK) or {}
  local state = {
    key = key, rate = rate, period = period, now = now, units = read_units(head[1]), first = 1,
    n = saved, ats = {}, costs = {}, loaded = math.max(#head - 1, 0), chunk = 2 * LOG_CHUNK,
    saved = saved, kept = saved, dropped = 0, exists = length > 0, newest = 0, ahead = false,
    still = 0,
  }
  for i = 1, #head - 1 do
    state.ats[i], state.costs[i] = read_entry(head[i + 1])
  end
  if saved > 0 then
    state.newest = state.ats[saved] or read_entry(redis.call('LINDEX', key, -1))
    state.ahead = state.newest > now + ticks_per_s
    if state.newest > now and not state.ahead then
      -- A small step back: no time passes until then.
      state.now, state.still = state.newest, state.newest - now
    end
  end
  return state
end

-- The units of the entries from index i to the last.
local function sum_units(state, i, last)
  local sum = 0
  for from = i, last, LOG_SUMMED do
    local to = math.min(from + LOG_SUMMED - 1, last)
    local chunk = redis.call('LRANGE', state.key, from, to)
    for j = 1, #chunk do
      local _, units = read_entry(chunk[j])
      sum = sum + units
    end
  end
  return sum
end

-- Drops a burst, which may have thousands of entries, without reading each: it finds the first that
-- stays. The units need no sum if no entry stays, or if each has one; else the shorter side is
-- summed up.
local function drop_burst(state)
  local from, first, last = state.first, state.first, state.n
  if math.min(state.newest, state.now) + state.period <= state.now then
    first = last + 1
  end
  local stays = last -- if any does
  while first < stays do
    local middle = math.floor((first + stays) / 2)
    if log_time(state, middle) + state.period <= state.now then
      first = middle + 1
    else
      stays = middle
    end
  end
  local n_left, n_stay = first - from, last - first + 1
  if state.units == n_left + n_stay or n_stay == 0 then
    state.units = n_stay
  elseif n_left < n_stay then
    state.units = state.units - sum_units(state, from, first - 1)
  else
    state.units = sum_units(state, first, last)
  end
  state.first, state.loaded = first, math.max(state.loaded, first - 1)
end

-- What has left the window by now counts no more.
local function drop_old(state)
  while state.first <= state.n do
    local at, units = log_entry(state, state.first)
    if at + state.period > state.now then
      break
    end
    state.units, state.first = state.units - units, state.first + 1
    if state.first == LOG_CHUNK + 1 then
      drop_burst(state)
    end
  end
  state.units = math.max(state.units, 0)
end

local function write_log(state, ticks_per_s)
  local key = state.key
  if state.kept < state.saved then
    redis.call('LTRIM', key, 0, state.kept)
  end
  if not state.exists then
    redis.call('RPUSH', key, struct.pack('<d', 0))
  elseif state.first > 1 then
    redis.call('LTRIM', key, state.first - 1, -1) -- the last that left becomes the sum
    state.dropped = state.first - 1
  end
  redis.call('LSET', key, 0, struct.pack('<d', state.units))
  for i = state.kept + 1, state.n do
    redis.call('RPUSH', key, format_entry(state.ats[i], state.costs[i]))
  end
  redis.call('EXPIRE', key, ttl_s(state.period / ticks_per_s))
end

if settles then
  -- The index of the last entry that is not later than time, and its time and
  -- units; 0 if there is none.
  local function find_entry(key, n, time)
    local low, high, found_at, found_units = 0, n, 0, 0
    while low < high do
      local middle = math.ceil((low + high) / 2)
      local at, units = read_entry(redis.call('LINDEX', key, middle))
      if at <= time then
        low, found_at, found_units = middle, at, units
      else
        high = middle - 1
      end
    end
    return low, found_at, found_units
  end

  -- Returns what of delta the entry does not have. One without units is removed.
  local function lower_entry(key, i, entry_at, units, delta)
    if units + delta > 0 then
      redis.call('LSET', key, i, format_entry(entry_at, units + delta))
      return 0
    end
    redis.call('LSET', key, i, '') -- no entry is empty: this one alone is removed
    redis.call('LREM', key, -1, '')
    return delta + units
  end

  -- Of the entries of the charge's tick the latest give back first. What was re-dated is the
  -- newest. What was taken more while the request was in flight has an entry a little later than
  -- its caller knows: a tenth of a second at most, and not many entries, so that it takes no long.
  local function give_back(key, delta, charged_at, now, ticks_per_s, period)
    local n = redis.call('LLEN', key) - 1
    if n < 1 then
      return
    end
    local total = read_units(redis.call('LINDEX', key, 0))
    local newest = read_entry(redis.call('LINDEX', key, -1))
    local time, counts_from = math.min(charged_at, newest), math.max(now, newest) - period
    local i, entry_at, units = find_entry(key, n, time)
    local wanted = delta
    while i > 0 and delta < 0 and entry_at == time do
      delta = lower_entry(key, i, entry_at, units, delta)
      i = i - 1
      if i > 0 then
        entry_at, units = read_entry(redis.call('LINDEX', key, i))
      end
    end
    local latest = time + (ticks_per_s - ticks_per_s % 10) / 10
    for _ = 1, time > counts_from and 16 or 0 do
      local entry = delta < 0 and redis.call('LINDEX', key, i + 1)
      if not entry then
        break
      end
      entry_at, units = read_entry(entry)
      if entry_at > latest then
        break
      end
      delta = lower_entry(key, i + 1, entry_at, units, delta)
    end
    redis.call('LSET', key, 0, struct.pack('<d', total + wanted - delta))
  end

  -- What is taken is one more entry, of now. A log that has rate of them, as many as charges can
  -- make, does not grow: its newest is dated to now and has all.
  return function(key, _, delta, charged_at, now, ticks_per_s, rate, period)
    if delta <= 0 then
      return give_back(key, delta, charged_at, now, ticks_per_s, period)
    end
    local state, units = load_log(key, now, ticks_per_s, rate, period), 0
    drop_old(state)
    if state.ahead then
      follow_log(state)
    end
    if state.n >= state.first and state.n - state.first + 1 >= rate then
      log_time(state, state.n)
      units = state.costs[state.n]
      state.n, state.kept = state.n - 1, math.min(state.kept, state.n - 1)
    end
    state.n = state.n + 1
    state.ats[state.n], state.costs[state.n] = state.now, math.min(units + delta, 2^32 - 1)
    state.units = state.units - units + state.costs[state.n]
    write_log(state, ticks_per_s)
  end
end

local function judge(key, cost, now, ticks_per_s, rate, period)
  local state = load_log(key, now, ticks_per_s, rate, period)
  drop_old(state)
  local retry_after = 0
  if cost > rate then
    retry_after = -1
  elseif cost > 0 and state.units + cost > rate then
    retry_after = log_passes_after(state, cost)
  end
  return retry_after, 0, state.ahead, state, state.now
end

-- A call that charges nothing drops what has left as well, where it is so much that each call would
-- have to read it again. Nothing that counts changes, so the expiry stays. Where nothing can be
-- written, on a replica or with a full disk, the list stays as it is.
local function trim_log(state)
  if state.first - 1 > LOG_LEFT and
    not redis.pcall('LTRIM', state.key, state.first - 1, -1).err then
    state.dropped = state.first - 1
    redis.call('LSET', state.key, 0, struct.pack('<d', state.units))
  end
end

local function finish(key, cost, to_full, writes, now, ticks_per_s, rate, period, _, _, _, state)
  if to_full then
    cost = math.min(cost, math.max(rate - state.units, 0))
  end
  if writes and state.ahead then
    follow_log(state)
  end
  if cost > 0 then
    state.n = state.n + 1
    state.ats[state.n], state.costs[state.n] = state.now, cost
    state.units, state.newest = state.units + cost, state.now
  end
  if writes then
    write_log(state, ticks_per_s)
  else
    trim_log(state)
  end
  local remaining = state.units < rate and rate - state.units or 0
  local next_after, reset_after = 0, 0
  if remaining < rate then
    next_after = log_passes_after(state, remaining + 1)
  end
  if state.first <= state.n then
    reset_after = math.max(math.min(state.newest, state.now) + period - state.now, 0) + state.still
  end
  return remaining, next_after, reset_after
end

return judge, finish
