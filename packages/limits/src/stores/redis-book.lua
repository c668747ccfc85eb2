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

local answer = not long and (function()
  local rules, size, id = ARGV[3], #header, ARGV[6]
  if id == '' then id = nil end
  local isTake, isReserve, isFire = kind == 116, kind == 114, kind == 102
  if not (isTake or isReserve or isFire or kind == 99) or size == 12 or byte(rules) ~= 48 then return end

  local head, number, coming, count, waits = header, '\0\0', '\0\1', 0, 0
  local counted, booked, known, before, stored = '', '', '', blob or '', nil
  if blob then
    local sign, stop = byte(blob), nil
    if sign == 65 and sub(blob, 10, size) == sub(header, 10) then
      stored, counted = sub(blob, 2, 9), sub(blob, size + 1)
      count = #counted / 6
    elseif sub(blob, 1, 4) == 'B\0\0\1' and sub(blob, 16, size + 6) == sub(header, 10) then
      stored, coming, number = sub(blob, 8, 15), sub(blob, 5, 6), sub(blob, size + 7, size + 8)
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
    local b1, b2, b3, b4, b5, b6, b7 = byte(known, block + 1, block + 7)
    if ((((((b1 * 128 + b2) * 128 + b3) * 128 + b4) * 128 + b5) * 128 + b6) * 128 + b7) > now then return end
  end
  if count > 0 and unpack('>I6', counted, 6 * count - 5) > now then return end

  local horizon, firm, low, intervals = 1e18, false, false, nil
  local terms = ARGV[7]
  if terms and terms ~= '' then
    local t1, t2, t3, t4, t5, t6, t7, h1, h2, h3, h4, h5, h6, h7, flags = byte(terms, 1, 15)
    if ((((((t1 * 128 + t2) * 128 + t3) * 128 + t4) * 128 + t5) * 128 + t6) * 128 + t7) > now then return end
    horizon = (((((h1 * 128 + h2) * 128 + h3) * 128 + h4) * 128 + h5) * 128 + h6) * 128 + h7
    firm, low = flags % 2 == 1, flags % 4 >= 2
    if #terms > 15 then
      intervals = cjson.decode(sub(terms, 16))
      for index = 1, #intervals, 3 do
        if intervals[index] <= now and now < intervals[index + 1] then return end
      end
    end
  end

  local weight, own, first, last = (d1 * 128 + d2) * 128 + d3, '', nil, nil
  if id then
    own = '\255' .. id .. '\254'
    first, last = string.find(known, own, 1, true)
  end
  if weight > 4 and kind ~= 99 then return end
  if isFire then
    if not first then return end
    local a1, a2, a3, a4, a5, a6, a7, w1, w2, w3, flags, n1, n2 = byte(known, last + 1, last + 13)
    if flags % 2 == 1 or n1 ~= 0 or n2 ~= 1 then return end
    local at = (((((a1 * 128 + a2) * 128 + a3) * 128 + a4) * 128 + a5) * 128 + a6) * 128 + a7
    weight = (w1 * 128 + w2) * 128 + w3
    local at6, from = pack('>I6', at), 0
    repeat from = string.find(booked, at6, from + 1, true) until not from or from % 6 == 1
    if not from then return end
    booked, waits = sub(booked, 1, from - 1) .. sub(booked, from + 6 * weight), waits - weight
    before, low = before .. sub(known, first, last + 15), flags >= 2
    known = sub(known, 1, first - 1) .. sub(known, last + 16)
  elseif first or waits > 0 then
    return
  end

  local at, c1, c2, c3 = now, byte(rules, 2, 4)
  for pos = 5, 8 * ((c1 * 128 + c2) * 128 + c3), 8 do
    local m1, m2, m3, v1, v2, v3, v4, v5 = byte(rules, pos, pos + 7)
    local places = (m1 * 128 + m2) * 128 + m3 - weight + 1
    if places < 1 then return end
    if places > count then break end
    local free = unpack('>I6', counted, 6 * (count - places) + 1) + (((v1 * 128 + v2) * 128 + v3) * 128 + v4) * 128 + v5
    if free > at then at = free end
  end
  local what = '1'
  if at > now and isReserve or isFire and at > now then
    -- Who waits behind others, at night, or where a limit refuses, is seated by the general way.
    if intervals or waits > 0 or slow == 42 then return end
    what = '2'
  elseif isReserve then
    what = '2'
  elseif at > now or not isTake and not isFire then
    what = '0'
  end
  if isReserve and at - now > horizon then what = '0' end
  local reply = 'g' .. now6 .. pack('>I7', at) .. what .. before
  if what == '0' then return reply end

  local keep, at6 = ARGV[4] + 0, pack('>I6', at)
  local added = weight == 1 and at6 or string.rep(at6, weight)
  local counts = firm or not isReserve and what == '1'
  if counts then
    counted, count = counted .. added, count + weight
  else
    booked, waits = added, weight
    if keep < 2678400000 then keep = 2678400000 end
  end
  if waits > 0 and counts and keep < 2678400000 then keep = 2678400000 end
  head = sub(header, 2)
  if stored and stored ~= sub(header, 2, 9) then
    local a1, a2, a3, b1, b2, b3, b4, b5 = byte(stored, 1, 8)
    local m1, m2, m3, n1, n2, n3, n4, n5 = byte(header, 2, 9)
    local retained, wanted = (a1 * 128 + a2) * 128 + a3, (m1 * 128 + m2) * 128 + m3
    local longest = (((b1 * 128 + b2) * 128 + b3) * 128 + b4) * 128 + b5
    local window = (((n1 * 128 + n2) * 128 + n3) * 128 + n4) * 128 + n5
    head = sub(wanted > retained and header or ' ' .. stored, 2, 4) .. sub(window > longest and header or ' ' .. stored, 5, 9)
      .. sub(header, 10)
    if longest > keep then keep = longest end
  end
  local r1, r2, r3 = byte(head, 1, 3)
  if count > 2 * ((r1 * 128 + r2) * 128 + r3) then return end
  local entry = ''
  if id then
    entry = own .. toDigits(at, 7) .. toDigits(weight, 3) .. string.char((counts and 1 or 0) + (low and 2 or 0)) .. '\0\1'
      .. toDigits(unpack('>I2', number), 2)
  end
  local after = 'B\0\0\1' .. coming .. 'L' .. head .. number .. pack('>I4I4', count, waits) .. counted .. booked .. known .. entry
  if #after > longMin then return end
  local furthest = at
  if waits > weight or counts and waits > 0 then
    local end_ = unpack('>I6', booked, #booked - 5)
    if end_ > furthest then furthest = end_ end
  end
  redis.call('SET', KEYS[1], after, 'PX', math.ceil(furthest - now + keep + keep / 32))
  return reply
end)()
if answer then return answer end
