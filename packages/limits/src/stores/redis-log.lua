-- The logs of the general way: sorted instants, packed as they are stored. A log is a table: `n` units, the newest of them
-- packed in `s`, the `old` ones before them in segments of a hash (redis-write.lua), which a short state has not.
--
-- A log in which a batch of more than `unitsMax` stands is kept in runs (`runs`): 6 bytes of how many units left it, then
-- records of 12: an instant, and how many units there were up to it, counted from the first that ever stood there. So a
-- batch of thousands takes no more than one, and the unit with a given number is found by halves.
--
-- All of it is in a function, because a call on the quick way would pay for the stack that these locals take.
return (function()
local never, unlimited = 9e15, 281474976710655
local dayMs, overdueMs, segment, unitsMax = 86400000, 31 * 86400000, math.ceil(longMin / 64), 4
local lanes, ids, stored, changed, known, coming = {}, {}, {}, {}, '', 1
local allRead, dropped = false, false

local function digits(text, pos, count)
  local value = 0
  for index = pos, pos + count - 1 do value = value * 128 + byte(text, index) end
  return value
end

local function newLog(text, runs)
  local log = { s = text, n = #text / 6, old = 0, first = 0, counts = {}, runs = runs }
  if runs then log.n = unpack('>I6', text, #text - 5) - unpack('>I6', text) end
  return log
end

-- Finds a unit in a log in runs: its instant, and the number of units up to the end of its run.
local function unit(log, index)
  local base = unpack('>I6', log.s)
  local at, upTo = unpack('>I6I6', log.s, 12 * above(log.s, 13, 12, 0, (#log.s - 6) / 12 - 1, base + index - 1) + 7)
  return at, upTo - base
end

-- Counts the runs of a log that lie at t or before it.
local function runsUntil(log, t)
  return above(log.s, 7, 12, 0, (#log.s - 6) / 12, t)
end

local function segmentOf(log, index)
  local text = log.cache[index]
  if not text then
    text = redis.call('HGET', KEYS[1], log.field .. log.first + index)
    log.cache[index] = text
  end
  return text
end

local function instant(log, index)
  if log.runs then return (unit(log, index)) end
  local place = index - log.old
  if place > 0 then return (unpack('>I6', log.s, 6 * place - 5)) end
  local rest = (index - 1) % segment
  return (unpack('>I6', segmentOf(log, (index - 1 - rest) / segment), 6 * rest + 1))
end

-- The first instant of each segment.
local function directory(log)
  if not log.directory then log.directory = redis.call('HGET', KEYS[1], log.field) end
  return log.directory
end

local function firstOf(log)
  if log.old > 0 then return (unpack('>I6', directory(log))) end
  if log.runs and log.n > 0 then return (unpack('>I6', log.s, 7)) end
  return log.n > 0 and (unpack('>I6', log.s)) or nil
end

-- Logs are sorted; an instant may stand in them several times. The same is asked again and again: what was found is
-- kept in `counts` until something is taken out or put between; what is appended lies behind all that stands there.
local function countUntil(log, t)
  local text, old, high = log.s, log.old, log.n
  if high == 0 or instant(log, high) <= t then return high end
  local counted = log.counts[t]
  if counted then return counted end
  if log.runs then
    local whole = runsUntil(log, t)
    return whole == 0 and 0 or unpack('>I6', text, 12 * whole + 1) - unpack('>I6', text)
  end
  if old > 0 and (text == '' or unpack('>I6', text) > t) then
    high = above(directory(log), 1, 6, 0, old / segment, t)
    if high > 0 then
      text, old, high = segmentOf(log, high - 1), segment * (high - 1), segment * high
    end
  end
  counted = above(text, 1 - 6 * old, 6, math.min(old, high), high, t)
  log.counts[t] = counted
  return counted
end

-- Takes what is in segments back, so that it can be changed anywhere.
local function thaw(log)
  local parts = {}
  for index = 0, log.old / segment - 1 do
    parts[#parts + 1] = segmentOf(log, index)
    log.gone[#log.gone + 1] = log.field .. log.first + index
  end
  parts[#parts + 1] = log.s
  log.first, log.old, log.directory, log.cache = log.first + log.old / segment, 0, '', {}
  log.s = table.concat(parts)
end

-- From here on in runs; units at one instant become one.
local function inRuns(log)
  if log.runs then return end
  if log.old > 0 then thaw(log) end
  local parts, last = { pack('>I6', 0) }, nil
  for index = 1, log.n do
    local at = sub(log.s, 6 * index - 5, 6 * index)
    if at ~= last then parts[#parts + 1] = at .. pack('>I6', index) else parts[#parts] = at .. pack('>I6', index) end
    last = at
  end
  log.s, log.runs, log.counts = table.concat(parts), true, {}
end

-- Moves the counts of runs: each has so many units more before it.
local function movedBy(text, units)
  local parts = {}
  for from = 1, #text, 12 do
    local at, upTo = unpack('>I6I6', text, from)
    parts[#parts + 1] = pack('>I6I6', at, upTo + units)
  end
  return table.concat(parts)
end

-- Adds to the run at this instant, or makes one; takes out where `units` is below 0, and answers nothing.
local function changeRun(log, at, units)
  local whole = runsUntil(log, at)
  local from = 12 * whole + 7
  local upTo = unpack('>I6', log.s, from - 6)
  local kept = sub(log.s, 1, from - 1)
  if whole > 0 and unpack('>I6', log.s, from - 12) == at then
    kept = sub(log.s, 1, from - 13)
    local held = upTo - unpack('>I6', log.s, from - 18)
    if units < -held then units = -held end
    if units > -held then kept = kept .. pack('>I6I6', at, upTo + units) end
  elseif units > 0 then
    kept = kept .. pack('>I6I6', at, upTo + units)
  else
    return
  end
  log.s, log.n, log.counts = kept .. movedBy(sub(log.s, from), units), log.n + units, {}
end

local function insert(log, at, weight)
  if weight > unitsMax then inRuns(log) end
  if log.runs then return changeRun(log, at, weight) end
  local index, added = countUntil(log, at), pack('>I6', at)
  if weight > 1 then added = string.rep(added, weight) end
  if index == log.n then
    log.s = log.s .. added
  else
    if index < log.old then thaw(log) end
    local place = 6 * (index - log.old)
    log.s, log.counts = sub(log.s, 1, place) .. added .. sub(log.s, place + 1), {}
  end
  log.n = log.n + weight
end

local function remove(log, at, weight)
  if log.runs then return changeRun(log, at, -weight) end
  local last = countUntil(log, at)
  local first = last
  while first > 0 and last - first < weight and instant(log, first) == at do first = first - 1 end
  if first == last then return end
  if first < log.old then thaw(log) end
  log.s = sub(log.s, 1, 6 * (first - log.old)) .. sub(log.s, 6 * (last - log.old) + 1)
  log.n, log.counts = log.n - (last - first), {}
end

-- Whole segments only, where there are any.
local function drop(log, count)
  if count <= 0 then return end
  dropped, log.counts = true, {}
  if log.runs then
    local gone, base, from = math.min(count, log.n), unpack('>I6', log.s), 7
    -- Whole runs go; of the next the first units.
    while from <= #log.s and unpack('>I6', log.s, from + 6) - base <= gone do from = from + 12 end
    log.s, log.n = pack('>I6', base + gone) .. sub(log.s, from), log.n - gone
    return
  end
  local whole = math.floor(math.min(count, log.old) / segment)
  if whole > 0 then
    log.directory = sub(directory(log), 6 * whole + 1)
    for index = 0, whole - 1 do log.gone[#log.gone + 1] = log.field .. log.first + index end
    log.first, log.old, log.n, log.cache = log.first + whole, log.old - whole * segment, log.n - whole * segment, {}
    count = count - whole * segment
  end
  if log.old == 0 then log.s, log.n = sub(log.s, 6 * count + 1), log.n - count end
end

local function copy(log)
  if log.old > 0 then thaw(log) end
  return newLog(log.s, log.runs)
end

local function merged(lane)
  local a, b = lane.fired, lane.booked
  if b.n == 0 then return a end
  if a.runs or b.runs then
    local all, one = copy(a), copy(b)
    inRuns(all)
    inRuns(one)
    local before = unpack('>I6', one.s)
    for from = 7, #one.s, 12 do
      local at, upTo = unpack('>I6I6', one.s, from)
      changeRun(all, at, upTo - before)
      before = upTo
    end
    return all
  end
  local all = { s = a.s, n = a.n, old = a.old, first = a.first, field = a.field, cache = a.cache }
  all.directory, all.gone, all.counts = a.directory, {}, {}
  local kept = countUntil(a, (unpack('>I6', b.s)))
  if kept < all.old then thaw(all) end
  local from, parts = 6 * (kept - all.old) + 1, { sub(all.s, 1, 6 * (kept - all.old)) }
  if from <= #all.s then
    for index = 1, b.n do
      local t, to = instant(b, index), from
      while to <= #all.s and unpack('>I6', all.s, to) <= t do to = to + 6 end
      parts[#parts + 1] = sub(all.s, from, to - 1)
      parts[#parts + 1] = sub(b.s, 6 * index - 5, 6 * index)
      from = to
    end
    parts[#parts + 1] = sub(all.s, from)
  else
    parts[2] = b.s
  end
  all.s, all.n = table.concat(parts), a.n + b.n
  return all
end
