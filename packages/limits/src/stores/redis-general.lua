-- The general way: the state is read into tables, the question is worked as stores/weigh.ts works it, and what came of
-- it is written back. Behind redis-quick.lua, whose locals and arguments it goes on with.
--
-- State in this form: 'B'; number of lanes (3 bytes); each lane: header as above with an 'L', how many count (4), how
-- many are booked (4), their instants; number of ids (4); each id: length (2), id, instant (6), weight (3), flags (1:
-- 1 counts, 2 low), number of its lanes (2), their indexes (2 each). All of it is in a function, because a call on
-- the quick way would pay for the stack that these locals take.
return (function()
local never, unlimited = 9e15, 281474976710655
local dayMs, overdueMs = 86400000, 31 * 86400000
local lanes, ids = {}, {}
local eight = '>I6I6I6I6I6I6I6I6'

local function digits(text, pos, count)
  local value = 0
  for index = pos, pos + count - 1 do value = value * 128 + byte(text, index) end
  return value
end

local function readLog(pos, count)
  local log, index = {}, 1
  while index + 7 <= count do
    local a, b, c, d, e, f, g, h, after = unpack(eight, blob, pos)
    log[index], log[index + 1], log[index + 2], log[index + 3] = a, b, c, d
    log[index + 4], log[index + 5], log[index + 6], log[index + 7] = e, f, g, h
    index, pos = index + 8, after
  end
  for last = index, count do log[last], pos = unpack('>I6', blob, pos) end
  return log
end

local function readNames(text, pos, length)
  local names, stop = {}, pos + length
  while pos < stop do
    local size = digits(text, pos, 2)
    names[#names + 1] = sub(text, pos + 2, pos + 1 + size)
    pos = pos + 2 + size
  end
  return names
end

local function readHeader(pos)
  local length = digits(blob, pos + 9, 3)
  local lane = { retained = digits(blob, pos + 1, 3), longest = digits(blob, pos + 4, 5) }
  lane.names = readNames(blob, pos + 12, length)
  return lane, pos + 12 + length
end

local function readState()
  if byte(blob) == 65 then
    local lane, from = readHeader(1)
    lane.fired, lane.booked = readLog(from, (#blob - from + 1) / 6), {}
    lanes[1] = lane
    return
  end
  local total, pos = unpack('>I3', blob, 2)
  for index = 1, total do
    local lane, at = readHeader(pos)
    local counts, books, from = unpack('>I4I4', blob, at)
    lane.fired, lane.booked = readLog(from, counts), readLog(from + 6 * counts, books)
    lanes[index] = lane
    pos = from + 6 * (counts + books)
  end
  total, pos = unpack('>I4', blob, pos)
  for _ = 1, total do
    local length, from = unpack('>I2', blob, pos)
    local at, weight, flags, count, next = unpack('>I6I3I1I2', blob, from + length)
    local entry = { at = at, weight = weight, fired = flags % 2 == 1, low = flags >= 2, lanes = {} }
    for index = 1, count do entry.lanes[index] = lanes[unpack('>I2', blob, next + 2 * index - 2) + 1] end
    ids[sub(blob, from, from + length - 1)] = entry
    pos = next + 2 * count
  end
end

-- Logs are sorted; an instant may stand in them several times.

local function countUntil(log, t)
  local low, high = 0, #log
  while low < high do
    local sum = low + high
    local middle = (sum - sum % 2) / 2
    if log[middle + 1] <= t then low = middle + 1 else high = middle end
  end
  return low
end

local function insert(log, at, weight)
  local index, count = countUntil(log, at) + 1, #log
  if index > count then
    for place = index, count + weight do log[place] = at end
  else
    for _ = 1, weight do table.insert(log, index, at) end
  end
end

local function remove(log, at, weight)
  local index = countUntil(log, at)
  while weight > 0 and index > 0 and log[index] == at do
    table.remove(log, index)
    index, weight = index - 1, weight - 1
  end
end

local function merged(lane)
  local a, b = lane.fired, lane.booked
  if #b == 0 then return a end
  local all, i, j = {}, 1, 1
  for index = 1, #a + #b do
    if j > #b or (i <= #a and a[i] <= b[j]) then
      all[index], i = a[i], i + 1
    else
      all[index], j = b[j], j + 1
    end
  end
  return all
end

local function takeOut(entry)
  for _, lane in ipairs(entry.lanes) do remove(entry.fired and lane.fired or lane.booked, entry.at, entry.weight) end
end

local function putBack(entry)
  for _, lane in ipairs(entry.lanes) do insert(entry.fired and lane.fired or lane.booked, entry.at, entry.weight) end
end

local function copy(list)
  local twin = {}
  for index = 1, #list do twin[index] = list[index] end
  return twin
end

local function holds(list, item)
  for index = 1, #list do if list[index] == item then return true end end
  return false
end

-- The lanes that hold these streams and no others, each once; a lane of which only some are meant goes on as two.
local function cover(names)
  local found, unknown, meant = {}, {}, {}
  for _, name in ipairs(names) do
    local home
    for _, lane in ipairs(lanes) do if holds(lane.names, name) then home = lane end end
    if not home then
      unknown[#unknown + 1] = name
    elseif meant[home] then
      table.insert(meant[home], name)
    else
      meant[home] = { name }
      found[#found + 1] = home
    end
  end
  for index, lane in ipairs(found) do
    if #meant[lane] < #lane.names then
      local twin = { names = meant[lane], retained = lane.retained, longest = lane.longest }
      twin.fired, twin.booked = copy(lane.fired), copy(lane.booked)
      local rest = {}
      for _, name in ipairs(lane.names) do if not holds(twin.names, name) then rest[#rest + 1] = name end end
      lane.names = rest
      for _, entry in pairs(ids) do if holds(entry.lanes, lane) then table.insert(entry.lanes, twin) end end
      lanes[#lanes + 1], found[index] = twin, twin
    end
  end
  if #unknown > 0 then
    local lane = { names = unknown, retained = 128, longest = 0, fired = {}, booked = {} }
    lanes[#lanes + 1], found[#found + 1] = lane, lane
  end
  return found
end

local function drop(log, count)
  if count <= 0 then return log end
  local rest = {}
  for index = count + 1, #log do rest[index - count] = log[index] end
  return rest
end

-- Drops what is over: of what counted all but the newest, bookings nobody came for, ids whose instants are gone.
local function tend(keep)
  for _, lane in ipairs(lanes) do
    lane.fired = drop(lane.fired, countUntil(lane.fired, now - math.max(keep, lane.longest)))
    lane.booked = drop(lane.booked, countUntil(lane.booked, now - overdueMs))
    if lane.longest > 0 and #lane.fired > 2 * lane.retained then
      lane.fired = drop(lane.fired, countUntil(lane.fired, now) - lane.retained)
    end
  end
  for id, entry in pairs(ids) do
    local gone = entry.at <= now - ((entry.fired or #entry.lanes == 0) and dayMs or overdueMs)
    local kept = #entry.lanes == 0 or not entry.fired
    for _, lane in ipairs(entry.lanes) do kept = kept or (lane.fired[1] and lane.fired[1] <= entry.at) end
    if gone or not kept then ids[id] = nil end
  end
end

local function writeLog(parts, log)
  local index, count, part = 1, #log, #parts
  while index + 7 <= count do
    part = part + 1
    parts[part] = pack(eight, log[index], log[index + 1], log[index + 2], log[index + 3], log[index + 4],
      log[index + 5], log[index + 6], log[index + 7])
    index = index + 8
  end
  for last = index, count do
    part = part + 1
    parts[part] = pack('>I6', log[last])
  end
end

local function toDigits(value, count)
  local text = ''
  for _ = 1, count do
    text = string.char(value % 128) .. text
    value = math.floor(value / 128)
  end
  return text
end

-- Names in the order of their places, which is one and the same for everybody who sorted them once.
local function writeHeader(sign, lane)
  local text = {}
  for index, name in ipairs(lane.names) do text[index] = toDigits(#name, 2) .. name end
  local names = table.concat(text)
  return sign .. toDigits(lane.retained, 3) .. toDigits(lane.longest, 5) .. toDigits(#names, 3) .. names
end

local function writeState()
  local keep = ARGV[4] + 0
  tend(keep)
  local alive, number, booked, until_ = {}, {}, false, now
  for _, lane in ipairs(lanes) do
    if #lane.fired + #lane.booked > 0 then
      alive[#alive + 1] = lane
      number[lane] = #alive - 1
      booked = booked or #lane.booked > 0
      keep = math.max(keep, lane.longest)
      until_ = math.max(until_, lane.fired[#lane.fired] or 0, lane.booked[#lane.booked] or 0)
    end
  end
  local count, known = 0, {}
  for id, entry in pairs(ids) do
    local homes = {}
    for _, lane in ipairs(entry.lanes) do if number[lane] then homes[#homes + 1] = pack('>I2', number[lane]) end end
    local flags = (entry.fired and 1 or 0) + (entry.low and 2 or 0)
    known[#known + 1] = pack('>I2', #id) .. id .. pack('>I6I3I1I2', entry.at, entry.weight, flags, #homes)
    known[#known + 1] = table.concat(homes)
    count = count + 1
    until_ = math.max(until_, entry.at)
  end
  if #alive == 0 and count == 0 then
    if blob then redis.call('DEL', KEYS[1]) end
    return
  end
  local parts = {}
  if #alive == 1 and count == 0 and not booked then
    parts[1] = writeHeader('A', alive[1])
    writeLog(parts, alive[1].fired)
  else
    parts[1] = pack('>cI3', 'B', #alive)
    for _, lane in ipairs(alive) do
      parts[#parts + 1] = writeHeader('L', lane)
      parts[#parts + 1] = pack('>I4I4', #lane.fired, #lane.booked)
      writeLog(parts, lane.fired)
      writeLog(parts, lane.booked)
    end
    parts[#parts + 1] = pack('>I4', count)
    parts[#parts + 1] = table.concat(known)
  end
  if booked then keep = math.max(keep, overdueMs) elseif count > 0 then keep = math.max(keep, dayMs) end
  redis.call('SET', KEYS[1], table.concat(parts), 'PX', math.ceil(until_ - now + keep + keep / 32))
end
