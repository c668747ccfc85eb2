-- The quick way of `take` and `check` without an id where a stream may be long: a string of any length is asked for the
-- few instants that decide, never read as a whole, and appended to. The caller knows from the plan that it may be long,
-- and says so ('~'). The rows are made here, as quietRow of decision.ts makes them, and answered in the form of
-- redis-rows.lua. KEYS and ARGV are explained in redis-quick.lua. Anything but one lane of instants in the past goes on
-- to the next part.

-- A number of up to five digits of base 128.
local function five(a, b, c, d, e) return (((a * 128 + b) * 128 + c) * 128 + d) * 128 + e end
local function three(text, at) return five(0, 0, byte(text, at, at + 2)) end

-- The largest of each number of a header in the store and of this one, with the names; and the longest window of the
-- former. `stored` is a sign and the digits.
local function widest(stored)
  local longest, window = five(byte(stored, 5, 9)), five(byte(header, 5, 9))
  local isMore = three(header, 2) > three(stored, 2)
  return sub(isMore and header or stored, 2, 4) .. sub(window > longest and header or stored, 5, 9) .. sub(header, 10), longest
end

-- Finds by halves the first number > t of those from `low` on and below `high`: they are sorted, and number i is in the
-- text at `at` + `step` × i.
local function above(text, at, step, low, high, t)
  while low < high do
    local sum = low + high
    local middle = (sum - sum % 2) / 2
    if unpack('>I6', text, at + step * middle) <= t then low = middle + 1 else high = middle end
  end
  return low
end

local keptMin = (ARGV[6] or 0) + 0
if c3 then keptMin = math.max(keptMin, five(byte(header, 5, 9))) end

if slow == 126 then
  local answer = (function()
    local key, size = KEYS[1], #header
    local stored, keep, head = redis.call('GETRANGE', key, 0, size - 1), keptMin, header
    if stored ~= header then
      if byte(stored) ~= 65 or sub(stored, 10) ~= sub(header, 10) then return end
      local longest
      head, longest = widest(stored)
      head, keep = 'A' .. head, math.max(keep, longest)
    end
    local count, weight = (length - size) / 6, five(0, 0, d1, d2, d3)
    local function instant(index)
      local from = size + 6 * index - 6
      return (unpack('>I6', redis.call('GETRANGE', key, from, from + 5)))
    end
    local last = instant(count)
    if last > now or refusals == 49 then return end

    local pos, list, at = 10 + 8 * five(0, 0, c1, c2, c3), {}, now
    local total = three(question, pos)
    for index = 1, total do
      local from = pos + 6 + 12 * (index - 1)
      local written, window = three(question, from), five(byte(question, from + 3, from + 7))
      local max = byte(question, from + 8) >= 2 and 9e15 or written
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
          low = above(redis.call('GETRANGE', key, size + 6 * low, size + 6 * high - 1), 1 - 6 * low, 6, low, high, t)
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
      parts[index] = string.format(',%d,%d,%d,%d,%d,%d,%d', used, left, left, 0, frees, resets,
        used + weight <= max and 1 or 0)
    end
    if counted then
      local slack, retained = keep / 8, three(head, 2)
      if head ~= stored then redis.call('SETRANGE', key, 0, head) end
      redis.call('APPEND', key, weight == 1 and now6 or string.rep(now6, weight))
      if count + weight > 2 * retained then
        redis.call('SET', key, head .. redis.call('GETRANGE', key, -6 * retained, -1), 'PX', math.ceil(keep + slack))
      elseif now - now % slack ~= last - last % slack then
        redis.call('PEXPIRE', key, math.ceil(keep + slack))
      end
    end
    return string.format('r%d,%d,%d,%d,%d,%d', now, at, counted and 1 or 0, 0, deciding, 0) .. table.concat(parts)
  end)()
  if answer then return answer end
  blob, slow = redis.call('GET', KEYS[1]), 32
end
