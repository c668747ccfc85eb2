-- Sorted lists of whole numbers below 2^48 within the hash of a value, 6 bytes a number, in segments of at most 512: an
-- operation reads and writes the segments that it touches, and the index. Field <name> is the index, 12 bytes a segment
-- (number of the segment, its first value, how many); field <name>:<number> is a segment.
local segmentMax = 512
local lists, head = {}, nil

local function listOf(name)
  local list = lists[name]
  if list then return list end
  list = { name = name, segments = {}, length = 0, changed = false, gone = {} }
  local index = call('HGET', key, name)
  if index then
    for from = 1, #index, 12 do
      local number, first, count = unpack('>I4I6I2', index, from)
      list.segments[#list.segments + 1] = { number = number, first = first, count = count, changed = false }
      list.length = list.length + count
    end
  end
  lists[name] = list
  return list
end

local function textOf(list, segment)
  if not segment.text then segment.text = call('HGET', key, list.name .. ':' .. segment.number) end
  return segment.text
end

-- The segment that holds the index, its place among the segments, and the index within it.
local function segmentAt(list, index)
  local segments = list.segments
  if index + index > list.length then
    local before = list.length
    for place = #segments, 1, -1 do
      before = before - segments[place].count
      if index > before then return segments[place], place, index - before end
    end
  end
  for place = 1, #segments do
    local count = segments[place].count
    if index <= count then return segments[place], place, index end
    index = index - count
  end
end

local function at(list, index)
  local segment, _, within = segmentAt(list, index)
  if within == 1 then return segment.first end
  return (unpack('>I6', textOf(list, segment), 6 * within - 5))
end

-- Counts the values <= t. Also answers the segment in which t would stand, and the count within it.
local function countUntil(list, t)
  local segments = list.segments
  local place, before = #segments, list.length
  if place == 0 then return 0, 0, 0 end
  before = before - segments[place].count
  while place > 1 and segments[place].first > t do
    place = place - 1
    before = before - segments[place].count
  end
  local segment = segments[place]
  if segment.first > t then return before, place, 0 end
  local low, high = 1, segment.count
  local text = textOf(list, segment)
  if unpack('>I6', text, 6 * high - 5) <= t then return before + high, place, high end
  while low < high do
    local middle = floor((low + high) / 2)
    if unpack('>I6', text, 6 * middle + 1) <= t then low = middle + 1 else high = middle end
  end
  return before + low, place, low
end

local function newSegment(list, place, text)
  head.segment = head.segment + 1
  local segment = { number = head.segment, first = (unpack('>I6', text)), count = #text / 6, text = text, changed = true }
  table.insert(list.segments, place, segment)
  list.changed = true
end

local function insert(list, value)
  local _, place, within = countUntil(list, value)
  list.length, list.changed = list.length + 1, true
  local segment, packed = list.segments[place], pack('>I6', value)
  if not segment then return newSegment(list, 1, packed) end
  if within == segmentMax and place == #list.segments then return newSegment(list, place + 1, packed) end
  local text = textOf(list, segment)
  text = string.sub(text, 1, 6 * within) .. packed .. string.sub(text, 6 * within + 1)
  segment.text, segment.count, segment.changed = text, segment.count + 1, true
  if within == 0 then segment.first = value end
  if segment.count > segmentMax then
    local half = 6 * floor(segment.count / 2)
    segment.text, segment.count = string.sub(text, 1, half), half / 6
    newSegment(list, place + 1, string.sub(text, half + 1))
  end
end

local function dropSegment(list, place)
  local segment = table.remove(list.segments, place)
  list.gone[#list.gone + 1] = segment.number
  list.changed = true
end

-- Removes the value with this index, and answers it.
local function removeAt(list, index)
  local segment, place, within = segmentAt(list, index)
  local text = textOf(list, segment)
  local value = unpack('>I6', text, 6 * within - 5)
  list.length, list.changed = list.length - 1, true
  if segment.count == 1 then
    dropSegment(list, place)
    return value
  end
  segment.text = string.sub(text, 1, 6 * within - 6) .. string.sub(text, 6 * within + 1)
  segment.count, segment.changed = segment.count - 1, true
  segment.first = unpack('>I6', segment.text)
  return value
end

-- Removes one value; answers false where there is none.
local function remove(list, value)
  local index = countUntil(list, value)
  if index == 0 or at(list, index) ~= value then return false end
  removeAt(list, index)
  return true
end

-- Drops values <= t at the front: whole segments, and of the first that stays what is worth moving the rest.
local function forget(list, t)
  local segments = list.segments
  while #segments > 1 and segments[2].first <= t do
    list.length = list.length - segments[1].count
    dropSegment(list, 1)
  end
  local segment = segments[1]
  if not segment or segment.first > t then return end
  local text, stale = textOf(list, segment), 0
  while stale < segment.count and unpack('>I6', text, 6 * stale + 1) <= t do stale = stale + 1 end
  if stale == segment.count then
    list.length = list.length - stale
    dropSegment(list, 1)
  elseif stale >= 64 then
    segment.text, segment.count, segment.changed = string.sub(text, 6 * stale + 1), segment.count - stale, true
    segment.first = unpack('>I6', segment.text)
    list.length, list.changed = list.length - stale, true
  end
end

local function saveLists()
  for name, list in pairs(lists) do
    if list.changed then
      for _, number in ipairs(list.gone) do call('HDEL', key, name .. ':' .. number) end
      local index = {}
      for place, segment in ipairs(list.segments) do
        if segment.changed then call('HSET', key, name .. ':' .. segment.number, segment.text) end
        index[place] = pack('>I4I6I2', segment.number, segment.first, segment.count)
      end
      if #index > 0 then call('HSET', key, name, table.concat(index)) else call('HDEL', key, name) end
    end
  end
end
