-- The general path: the state is read, the question is answered as by stores/general-path.ts, and the result is written
-- back. Goes on with the locals and arguments of the parts before.
--
-- State in this form: 'B', or 'C' where a lane is in runs; number of lanes (3 bytes); number of the next lane (2); each lane: header as in redis-quick.lua
-- with an 'L', its own number (2), how many count (4), how many are booked (4), their instants; with an 'R' instead, how
-- many runs count and are booked, and both in runs; then the ids to the end.
-- Each id: byte 255, id, byte 254, then in digits of base 128 instant (7), weight (3), flags (1: 1 counts, 2 low), how
-- many lanes (2), their numbers (2 each). Neither UTF-8 nor digits hold these bytes: so an id is found without reading on.
local function takeOut(entry)
  for _, lane in ipairs(entry.lanes) do remove(entry.fired and lane.fired or lane.booked, entry.at, entry.weight) end
end

local function putBack(entry)
  for _, lane in ipairs(entry.lanes) do insert(entry.fired and lane.fired or lane.booked, entry.at, entry.weight) end
end

local function holds(list, item)
  for index = 1, #list do if list[index] == item then return true end end
  return false
end

local function readNames(text)
  local names, pos = {}, 1
  while pos < #text do
    local length = digits(text, pos, 2)
    names[#names + 1] = sub(text, pos + 2, pos + 1 + length)
    pos = pos + 2 + length
  end
  return names
end

local function namesOf(lane)
  if not lane.names then lane.names = readNames(lane.text) end
  return lane.names
end

-- The logs of a lane, packed from `at` on. Answers where what follows begins.
local function readLogs(lane, text, at, counts, books, isRuns)
  local stop = at + (isRuns and 6 + 12 * counts or 6 * counts)
  local past = stop + (isRuns and 6 + 12 * books or 6 * books)
  if past > #text + 1 then error('length') end
  lane.fired, lane.booked = newLog(sub(text, at, stop - 1), isRuns), newLog(sub(text, stop, past - 1), isRuns)
  return past
end

local function readHeader(text, pos)
  local stop = pos + 12 + digits(text, pos + 9, 3)
  local lane = { retained = digits(text, pos + 1, 3), longest = digits(text, pos + 4, 5) }
  lane.text = sub(text, pos + 12, stop - 1)
  return lane, stop
end

-- Reads a string, or of a hash what stands for it: 'm', whose form redis-write.lua tells.
local function readState()
  local text, pos = blob, 7
  if long then
    text = redis.call('HGET', KEYS[1], 'm')
  elseif byte(blob) == 65 then
    local lane, from = readHeader(blob, 1)
    if (#blob - from + 1) % 6 ~= 0 then error('length') end
    lane.fired, lane.booked, lane.number = newLog(sub(blob, from)), newLog(''), 0
    lanes[1] = lane
    return
  elseif byte(blob) ~= 66 and byte(blob) ~= 67 then
    error('form')
  end
  coming = unpack('>I2', text, 5)
  for index = 1, unpack('>I3', text, 2) do
    local lane, at = readHeader(text, pos)
    local first, segments, counts, books = 0, 0, nil, nil
    lane.number, at = unpack('>I2', text, at)
    if long then first, segments, at = unpack('>I4I4', text, at) end
    counts, books, at = unpack('>I4I4', text, at)
    pos = readLogs(lane, text, at, counts, books, byte(text, pos) == 82)
    if long then
      local fired, old = lane.fired, segments * segment
      fired.n, fired.old, fired.first, fired.cache, fired.gone = fired.n + old, old, first, {}, {}
      fired.field, fired.directory = 'f' .. lane.number .. ':', segments == 0 and '' or nil
    end
    lanes[index] = lane
  end
  if not long then known = sub(blob, pos) end
end

-- Tells whether an entry is over: its instants are not retained any more, or it is overdue.
local function isOver(entry)
  if (entry.homes or #entry.lanes) == 0 then return entry.at <= now - dayMs end
  if not entry.fired then return entry.at <= now - overdueMs end
  for _, lane in ipairs(entry.lanes) do
    local first = firstOf(lane.fired)
    if first and first <= entry.at then return false end
  end
  return true
end

local function readEntry(text)
  local flags = byte(text, 11)
  local entry = { at = digits(text, 1, 7), weight = digits(text, 8, 3), fired = flags % 2 == 1, low = flags >= 2 }
  entry.lanes, entry.homes = {}, digits(text, 12, 2)
  for index = 1, entry.homes do
    local number = digits(text, 12 + 2 * index, 2)
    for _, lane in ipairs(lanes) do
      if lane.number == number then entry.lanes[#entry.lanes + 1] = lane end
    end
  end
  return entry
end

-- Finds the entry of an id. False stands for an unknown one, once it was asked for.
local function entryOf(id)
  if ids[id] ~= nil then return ids[id] end
  local text
  if long then
    text = redis.call('HGET', KEYS[1], 'i' .. id)
  else
    local _, from = string.find(known, '\255' .. id .. '\254', 1, true)
    local stop = from and string.find(known, '\255', from, true) or 0
    text = from and sub(known, from + 1, stop - 1)
  end
  local entry = text and readEntry(text)
  stored[id] = entry ~= nil
  ids[id] = entry and not isOver(entry) and entry or false
  return ids[id]
end

local function setEntry(id, entry)
  ids[id], changed[id] = entry or false, true
end

local function readAll()
  if allRead then return end
  allRead = true
  local function learn(id, text)
    if ids[id] == nil then
      local entry = readEntry(text)
      stored[id] = true
      ids[id] = not isOver(entry) and entry or false
      if not ids[id] then changed[id] = true end
    end
  end
  if long then
    local fields = redis.call('HGETALL', KEYS[1])
    for index = 1, #fields, 2 do
      if byte(fields[index]) == 105 then learn(sub(fields[index], 2), fields[index + 1]) end
    end
  else
    for id, text in string.gmatch(known, '\255([^\254]*)\254([^\255]*)') do learn(id, text) end
  end
end

-- The lanes that hold these streams and no others, each once; a lane of which only some are meant goes on as two.
local function cover(names)
  local found, unknown, meant = {}, {}, {}
  for _, name in ipairs(names) do
    local home
    for _, lane in ipairs(lanes) do if holds(namesOf(lane), name) then home = lane end end
    if not home then
      unknown[#unknown + 1] = name
    elseif meant[home] then
      table.insert(meant[home], name)
    else
      meant[home] = { name }
      found[#found + 1] = home
    end
  end
  local function add(lane)
    lane.number, coming = coming, (coming + 1) % 16384
    lanes[#lanes + 1] = lane
  end
  for index, lane in ipairs(found) do
    if #meant[lane] < #lane.names then
      readAll()
      local twin = { names = meant[lane], retained = lane.retained, longest = lane.longest }
      twin.fired, twin.booked = copy(lane.fired), copy(lane.booked)
      local rest = {}
      for _, name in ipairs(lane.names) do if not holds(twin.names, name) then rest[#rest + 1] = name end end
      lane.names, lane.text = rest, nil
      for id, entry in pairs(ids) do
        if entry and holds(entry.lanes, lane) then
          table.insert(entry.lanes, twin)
          entry.homes, changed[id] = #entry.lanes, true
        end
      end
      add(twin)
      found[index] = twin
    end
  end
  if #unknown > 0 then
    add({ names = unknown, retained = 128, longest = 0, fired = newLog(''), booked = newLog('') })
    found[#found + 1] = lanes[#lanes]
  end
  return found
end
