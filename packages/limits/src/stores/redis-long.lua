-- The quick way of `take` and `check` without an id where a stream may be long: a string of any length is asked for the
-- few instants that decide, never read as a whole, and appended to. The caller knows from the plan that it may be long,
-- and says so ('~'). The rows are made here, as quietRow of decision.ts makes them, and answered in the form of
-- redis-rows.lua. KEYS and ARGV are told in redis-quick.lua. Short subjects, and whatever is not one lane of instants in the past, go on to the next part.
local question, header, blob = ARGV[1], ARGV[2], nil
local byte, sub, pack, unpack = string.byte, string.sub, struct.pack, struct.unpack
local now, longMin = ARGV[5], (ARGV[8] or 8192) + 0
if now == '' or not now then
  local time = redis.call('TIME')
  local micros = time[2] + 0
  now = time[1] * 1000 + (micros - micros % 1000) / 1000
else
  now = now + 0
end
local now6 = pack('>I6', now)
local kind, d1, d2, d3, slow = byte(question, 1, 5)
if slow == 126 then
  slow = nil
  local answer = (function()
    local key, rules, size = KEYS[1], ARGV[3], #header
    local length = redis.pcall('STRLEN', key)
    if type(length) == 'table' or length <= longMin or size == 12 then return end
    local stored, keep, head = redis.call('GETRANGE', key, 0, size - 1), ARGV[4] + 0, header
    if stored ~= header then
      if byte(stored) ~= 65 or sub(stored, 10) ~= sub(header, 10) then return end
      -- The same streams under several plans: the header tells the largest of each number.
      local a1, a2, a3, b1, b2, b3, b4, b5 = byte(stored, 2, 9)
      local m1, m2, m3, n1, n2, n3, n4, n5 = byte(header, 2, 9)
      local longest = (((b1 * 128 + b2) * 128 + b3) * 128 + b4) * 128 + b5
      local window = (((n1 * 128 + n2) * 128 + n3) * 128 + n4) * 128 + n5
      local isMore = (m1 * 128 + m2) * 128 + m3 > (a1 * 128 + a2) * 128 + a3
      head = 'A' .. sub(isMore and header or stored, 2, 4) .. sub(window > longest and header or stored, 5)
      if longest > keep then keep = longest end
    end
    local count, weight, refusals = (length - size) / 6, (d1 * 128 + d2) * 128 + d3, byte(rules)
    local function instant(index)
      local from = size + 6 * index - 6
      return (unpack('>I6', redis.call('GETRANGE', key, from, from + 5)))
    end
    local last = instant(count)
    if last > now or refusals == 49 then return end

    local pos, list, at = 5 + 8 * ((byte(rules, 2) * 128 + byte(rules, 3)) * 128 + byte(rules, 4)), {}, now
    local total = (byte(rules, pos) * 128 + byte(rules, pos + 1)) * 128 + byte(rules, pos + 2)
    for index = 1, total do
      local from = pos + 6 + 12 * (index - 1)
      local m1, m2, m3, w1, w2, w3, w4, w5, flags = byte(rules, from, from + 8)
      local written, window = (m1 * 128 + m2) * 128 + m3, (((w1 * 128 + w2) * 128 + w3) * 128 + w4) * 128 + w5
      local max = flags >= 2 and 9e15 or written
      local places, free = max - weight + 1, now
      if places < 1 then
        free = 9e15
      elseif places <= count then
        free = instant(count - places + 1) + window
      end
      if free > at then at = free end
      list[index] = { max = max, written = written, window = window, free = free }
    end
    local admits = at <= now
    local counted = admits and kind == 116
    if not admits and kind == 116 and refusals ~= 48 then return end

    -- How many have left each window, by halves, the last of them in one piece.
    local gone, added = {}, counted and weight or 0
    local deciding, parts = 0, {}
    for index = 1, total do
      local rule = list[index]
      local window, max = rule.window, rule.max
      local past = gone[window]
      if not past then
        local low, high, t = 0, count, now - window
        if last <= t then low = count end
        while low < high and high - low > 48 do
          local sum = low + high
          local middle = (sum - sum % 2) / 2
          if instant(middle + 1) <= t then low = middle + 1 else high = middle end
        end
        if low < high then
          local text, base = redis.call('GETRANGE', key, size + 6 * low, size + 6 * high - 1), low
          while low < high do
            local sum = low + high
            local middle = (sum - sum % 2) / 2
            if unpack('>I6', text, 6 * (middle - base) + 1) <= t then low = middle + 1 else high = middle end
          end
        end
        past, gone[window] = low, low
      end
      if rule.free > now and rule.free == at and deciding == 0 then deciding = index end
      local used, blocking, frees, resets = count - past, count + added - max, now, now
      if max - used - added <= 0 then
        frees = max == 0 and 9e15 or (blocking < count and instant(blocking + 1) or now) + window
      end
      if used > 0 then resets = instant(past + 1) + window elseif counted then resets = now + window end
      local left = math.max(0, rule.written - used - added)
      parts[index] = pack('>I4I4I4I4I7I7I1', used, left, left, 0, frees, resets,
        used + weight <= max and 1 or 0)
    end
    if counted then
      local slack, m1, m2, m3 = keep / 8, byte(head, 2, 4)
      local retained = (m1 * 128 + m2) * 128 + m3
      if head ~= stored then redis.call('SETRANGE', key, 0, head) end
      redis.call('APPEND', key, weight == 1 and now6 or string.rep(now6, weight))
      if count + weight > 2 * retained then
        redis.call('SET', key, head .. redis.call('GETRANGE', key, -6 * retained, -1), 'PX', math.ceil(keep + slack))
      elseif now - now % slack ~= last - last % slack then
        redis.call('PEXPIRE', key, math.ceil(keep + slack))
      end
    end
    return 'r' .. now6 .. pack('>I7', at) .. (counted and '1' or '0') .. pack('>I1I2I7', 0, deciding, 0)
      .. table.concat(parts)
  end)()
  if answer then return answer end
end
