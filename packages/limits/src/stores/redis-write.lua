-- How the general way writes: as a string, or, above longMin bytes, as a hash in which each call touches what it needs.
--
-- The hash: `m` what redis-state.lua's 'B' or 'C' is, with an 'H', without ids, and for each lane also the number of its first
-- segment (4 bytes) and how many there are (4); `f<lane>:<number>` a segment of 128 instants; `f<lane>:` the first
-- instant of each segment; `i<id>` what is known by an id. Segments are made when 192 instants lie behind them and are
-- never changed, only dropped; whoever must change one takes all of the lane back first.

-- How long what counted is kept: what was restored before any window was asked may all be needed.
local function keptMs(lane, keep)
  if lane.longest == 0 then return math.max(keep, overdueMs) end
  return math.max(keep, lane.longest)
end

-- Drops instants that are over: all but the newest that counted, and overdue bookings.
local function tend(keep)
  for _, lane in ipairs(lanes) do
    local until_, first = now - keptMs(lane, keep), firstOf(lane.fired)
    if first and first <= until_ then drop(lane.fired, countUntil(lane.fired, until_)) end
    if lane.booked.n > 0 then drop(lane.booked, countUntil(lane.booked, now - overdueMs)) end
    if lane.longest > 0 and lane.fired.n > 2 * lane.retained then
      drop(lane.fired, countUntil(lane.fired, now) - lane.retained)
    end
  end
end

-- A lane is in runs as a whole or not at all, and no longer when it is empty. Answers the sign of its header.
local function signOf(lane)
  local fired, booked = lane.fired, lane.booked
  if not fired.runs and not booked.runs then return 'L' end
  inRuns(fired)
  inRuns(booked)
  return 'R'
end

local function countOf(log)
  return log.runs and (#log.s - 6) / 12 or log.n - log.old
end

-- Names in the order of their places, which is one and the same for everybody who sorted them once.
local function writeHeader(sign, lane)
  local names = lane.text
  if not names then
    local text = {}
    for index, name in ipairs(lane.names) do text[index] = toDigits(#name, 2) .. name end
    names = table.concat(text)
  end
  return sign .. toDigits(lane.retained, 3) .. toDigits(lane.longest, 5) .. toDigits(#names, 3) .. names
end

local function writeEntry(entry)
  local homes, alive = {}, 0
  for _, lane in ipairs(entry.lanes) do
    if not lane.gone then
      alive = alive + 1
      homes[alive] = toDigits(lane.number, 2)
    end
  end
  local flags = string.char((entry.fired and 1 or 0) + (entry.low and 2 or 0))
  return toDigits(entry.at, 7) .. toDigits(entry.weight, 3) .. flags .. toDigits(alive, 2) .. table.concat(homes)
end

-- The ids as text, with what changed. All of them are looked at when something was dropped, and now and then.
local function writeIds(wasLong)
  local grown, parts = #known, {}
  for id in pairs(changed) do
    local own = '\255' .. id .. '\254'
    if stored[id] and not wasLong then
      local from, stop = string.find(known, own, 1, true)
      stop = string.find(known, '\255', stop, true) or #known + 1
      known = sub(known, 1, from - 1) .. sub(known, stop)
    end
    if ids[id] then parts[#parts + 1] = own .. writeEntry(ids[id]) end
  end
  known = known .. table.concat(parts)
  if known ~= '' and (dropped or math.floor(#known / 2048) > math.floor(grown / 2048)) then
    known = string.gsub(known, '(\255[^\254]*\254)([^\255]*)', function(_, text)
      if isOver(readEntry(text)) then return '' end
    end)
  end
end

-- Looks at a few ids of a hash for each that comes, so that those that are over stay fewer than the others.
local function lookAtIds()
  local fields = redis.call('HRANDFIELD', KEYS[1], 3, 'WITHVALUES')
  for index = 1, #fields, 2 do
    if byte(fields[index]) == 105 and ids[sub(fields[index], 2)] == nil and isOver(readEntry(fields[index + 1])) then
      redis.call('HDEL', KEYS[1], fields[index])
    end
  end
end

local function archive(lane)
  local log = lane.fired
  if not log.field then
    log.field, log.cache, log.gone, log.directory = 'f' .. lane.number .. ':', {}, {}, ''
  end
  local from, added = 1, {}
  while not log.runs and #log.s - from + 1 > 9 * segment do
    local text = sub(log.s, from, from + 6 * segment - 1)
    redis.call('HSET', KEYS[1], log.field .. log.first + log.old / segment, text)
    added[#added + 1] = sub(text, 1, 6)
    log.old, from = log.old + segment, from + 6 * segment
  end
  if from > 1 then
    log.directory = directory(log) .. table.concat(added)
    log.s = sub(log.s, from)
  end
  if #log.gone > 0 then
    for index = 1, #log.gone do redis.call('HDEL', KEYS[1], log.gone[index]) end
  end
  if log.old == 0 then
    redis.call('HDEL', KEYS[1], log.field)
  elseif from > 1 or #log.gone > 0 then
    redis.call('HSET', KEYS[1], log.field, log.directory)
  end
end

-- The lanes as redis-state.lua reads them.
local function writeLanes(form, alive)
  local parts = { '' }
  for _, lane in ipairs(alive) do
    local sign, fired, booked = signOf(lane), lane.fired, lane.booked
    if sign == 'R' and not long then form = 'C' end
    parts[#parts + 1] = writeHeader(sign, lane) .. pack('>I2', lane.number)
      .. (long and pack('>I4I4', fired.first, fired.old / segment) or '') .. pack('>I4I4', countOf(fired), countOf(booked))
    parts[#parts + 1] = fired.s
    parts[#parts + 1] = booked.s
  end
  parts[1] = pack('>cI3I2', form, #alive, coming)
  return table.concat(parts)
end

local function writeLong(alive)
  local came = false
  for _, lane in ipairs(alive) do signOf(lane) end
  for _, lane in ipairs(lanes) do if lane.gone or lane.fired.n > 0 then archive(lane) end end
  redis.call('HSET', KEYS[1], 'm', writeLanes('H', alive))
  for id in pairs(changed) do
    if ids[id] then
      redis.call('HSET', KEYS[1], 'i' .. id, writeEntry(ids[id]))
      came = true
    else
      redis.call('HDEL', KEYS[1], 'i' .. id)
    end
  end
  if came then lookAtIds() end
end

local function writeShort(alive, anyBooked)
  if #alive == 1 and known == '' and not anyBooked and signOf(alive[1]) == 'L' then
    return writeHeader('A', alive[1]) .. alive[1].fired.s
  end
  return writeLanes('B', alive) .. known
end

-- A hash that has shrunk to a fraction is a string again; ids that are over go on the way.
local function shrinks(alive)
  local bytes = 0
  for _, lane in ipairs(alive) do
    if lane.fired.old > 0 then return false end
    bytes = bytes + #lane.fired.s + #lane.booked.s
  end
  return bytes < longMin / 2 and redis.call('HLEN', KEYS[1]) <= 24
end

-- Begins the key anew in the other form: all that is known is written.
local function turn(toLong)
  readAll()
  for id, entry in pairs(ids) do changed[id] = entry and true or nil end
  redis.call('DEL', KEYS[1])
  long = toLong
end

local function writeState()
  local keep = keptMin
  tend(keep)
  local alive, anyBooked, until_ = {}, false, now
  for _, lane in ipairs(lanes) do
    local fired, booked = lane.fired, lane.booked
    if fired.n + booked.n > 0 then
      alive[#alive + 1] = lane
      anyBooked = anyBooked or booked.n > 0
      keep = keptMs(lane, keep)
      until_ = math.max(until_, fired.n > 0 and instant(fired, fired.n) or 0, booked.n > 0 and instant(booked, booked.n) or 0)
    else
      lane.gone = true
    end
  end
  local block = entryOf('')
  if block then until_ = math.max(until_, block.at) end
  -- An id lives as long as what it counted; one that no rule counted, and a block, a day.
  local unbound = #alive == 0 or block
  for id in pairs(changed) do
    if ids[id] then
      until_ = math.max(until_, ids[id].at)
      unbound = unbound or #ids[id].lanes == 0
    end
  end
  local wasLong = long
  if anyBooked then keep = math.max(keep, overdueMs) elseif unbound then keep = math.max(keep, dayMs) end
  local lifeMs = math.ceil(until_ - now + keep + keep / 32)
  if long and shrinks(alive) then turn(false) end
  if not long then
    writeIds(wasLong)
    if #alive == 0 and known == '' then
      redis.call('DEL', KEYS[1])
      return
    end
    local text = writeShort(alive, anyBooked)
    if #text <= longMin then
      redis.call('SET', KEYS[1], text, 'PX', lifeMs)
      return
    end
    turn(true)
  end
  writeLong(alive)
  redis.call('PEXPIRE', KEYS[1], lifeMs)
end
