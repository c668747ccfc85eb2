-- The quick way of what has an id: `reserve` and `take` of an id that is new, `fire` of one that is booked; and of `take`
-- and `check` without an id where others have theirs. For a subject whose streams have always been counted together,
-- with nothing in the future but the booking that is fired. As in redis-quick.lua each rule is O(1), and nothing is read
-- into tables: logs and ids are cut and joined as the bytes that they are. Ends without an answer, and with nothing
-- done, where the general way must be gone. The state is told in redis-state.lua.
local function toDigits(value, count)
  local text = ''
  for _ = 1, count do
    text = string.char(value % 128) .. text
    value = math.floor(value / 128)
  end
  return text
end

local function seven(text, at) return five(byte(text, at, at + 4)) * 16384 + five(0, 0, 0, byte(text, at + 5, at + 6)) end

local function termsOf()
  if (ARGV[5] or '') == '' then return { 0, 9e15, 0 } end
  return cjson.decode(ARGV[5])
end

local isTake, isFire = kind == 116, kind == 102

local answer = not long and (function()
  local size, id = #header, ARGV[4]
  if id == '' then id = nil end
  local isReserve = kind == 114
  if not (isTake or isReserve or isFire or kind == 99) or size == 12 or refusals ~= 48 then return end

  local number, coming, count, waits = '\0\0', '\0\1', 0, 0
  local counted, booked, known, before, stored = '', '', '', blob or '', nil
  if blob then
    local sign, stop = byte(blob), nil
    if sign == 65 and sub(blob, 10, size) == sub(header, 10) then
      stored, counted = sub(blob, 1, 9), sub(blob, size + 1)
      count = #counted / 6
    elseif sub(blob, 1, 4) == 'B\0\0\1' and sub(blob, 16, size + 6) == sub(header, 10) then
      stored, coming, number = sub(blob, 7, 15), sub(blob, 5, 6), sub(blob, size + 7, size + 8)
      count, waits = unpack('>I4I4', blob, size + 9)
      stop = size + 16 + 6 * count
      counted, booked = sub(blob, size + 17, stop), sub(blob, stop + 1, stop + 6 * waits)
      stop = stop + 6 * waits
      known, before = sub(blob, stop + 1), sub(blob, 1, stop)
    else
      return
    end
  end
  local _, block = string.find(known, '\255\254', 1, true)
  if block then
    if seven(known, block + 1) > now then return end
  end
  if count > 0 and unpack('>I6', counted, 6 * count - 5) > now then return end

  local terms = termsOf()
  if terms[1] > now then return end
  for index = 4, #terms, 3 do
    if terms[index] <= now and now < terms[index + 1] then return end
  end
  local firm, low = terms[3] % 2 == 1, terms[3] % 4 >= 2

  local weight, own, first, last = five(0, 0, d1, d2, d3), '', nil, nil
  if id then
    own = '\255' .. id .. '\254'
    first, last = string.find(known, own, 1, true)
  end
  if weight > 4 and kind ~= 99 then return end
  if isFire then
    if not first then return end
    local flags, n1, n2 = byte(known, last + 11, last + 13)
    if flags % 2 == 1 or n1 ~= 0 or n2 ~= 1 then return end
    weight = three(known, last + 8)
    local at6, from = pack('>I6', seven(known, last + 1)), 0
    repeat from = string.find(booked, at6, from + 1, true) until not from or from % 6 == 1
    if not from then return end
    booked, waits = sub(booked, 1, from - 1) .. sub(booked, from + 6 * weight), waits - weight
    before, low = before .. sub(known, first, last + 15), flags >= 2
    known = sub(known, 1, first - 1) .. sub(known, last + 16)
  elseif first or waits > 0 then
    return
  end

  local at = now
  for pos = 10, 5 + 8 * five(0, 0, c1, c2, c3), 8 do
    local places = three(question, pos) - weight + 1
    if places < 1 then return end
    if places > count then break end
    local free = unpack('>I6', counted, 6 * (count - places) + 1) + five(byte(question, pos + 3, pos + 7))
    if free > at then at = free end
  end
  local what = (at > now or kind == 99) and '0' or '1'
  if isReserve or isFire and at > now then
    -- Who waits behind others, at night, or where a limit refuses, is seated by the general way.
    if at > now and (#terms > 3 or waits > 0 or slow == 42) then return end
    what = isReserve and at - now > terms[2] and '0' or '2'
  end
  local reply = 'g' .. now6 .. pack('>I7', at) .. what .. before
  if what == '0' then return reply end

  local keep, at6 = keptMin, pack('>I6', at)
  local added = weight == 1 and at6 or string.rep(at6, weight)
  local counts = firm or not isReserve and what == '1'
  if counts then
    counted, count = counted .. added, count + weight
  else
    booked, waits = added, weight
  end
  if waits > 0 and keep < 2678400000 then keep = 2678400000 end
  local head = sub(header, 2)
  if stored and sub(stored, 2) ~= sub(header, 2, 9) then
    local longest
    head, longest = widest(stored)
    if longest > keep then keep = longest end
  end
  if count > 2 * three(head, 1) then return end
  local entry = ''
  if id then
    entry = own .. toDigits(at, 7) .. toDigits(weight, 3) .. string.char((counts and 1 or 0) + (low and 2 or 0)) .. '\0\1'
      .. toDigits(unpack('>I2', number), 2)
  end
  local after = 'B\0\0\1' .. coming .. 'L' .. head .. number .. pack('>I4I4', count, waits) .. counted .. booked .. known .. entry
  if #after > longMin then return end
  local furthest = at
  if waits > 0 then
    local end_ = unpack('>I6', booked, #booked - 5)
    if end_ > furthest then furthest = end_ end
  end
  redis.call('SET', KEYS[1], after, 'PX', math.ceil(furthest - now + keep + keep / 32))
  return reply
end)()
if answer then return answer end
