-- The quick way through a question: a subject whose streams have always been counted together, with nothing booked
-- and nothing in the future, asked by `take` or `check` without an id. One GET, one SET, no table, no closure. All
-- else goes on into redis-general.lua, with which this file makes one script.
--
-- KEYS[1]  the subject
-- ARGV[1]  question: kind (t take, c check, f fire, F force, r reserve, p preview; x cancel, s restore, d drop,
--          h has), then the weight in 3 digits
-- ARGV[2]  plan, as written by redis-wire.ts; its numbers have digits of base 128, so that it is valid UTF-8
-- ARGV[3]  how long what counted is kept at least, ms
-- ARGV[4]  epoch ms in place of the server's TIME, or empty
-- ARGV[5]  id, or empty      ARGV[6]  the terms in JSON: [notBefore, horizonMs, priority, firm, from, to, resumeAt, …]
-- returns  now in 6 bytes, the way (q quick, g general), the instant in 7 bytes, what was done (a digit), and the
--          state as it was before: the caller draws up the decision from it, so no rows are made here
--
-- State of a subject that can go this way: 'A', retained (3 bytes), longest window (5), length of the names (3), names
-- each with its length, instants of 6 bytes to the end. Numbers are big endian.
local question, plan, blob = ARGV[1], ARGV[2], redis.call('GET', KEYS[1])
local byte, sub, pack, unpack = string.byte, string.sub, struct.pack, struct.unpack
local now = ARGV[4]
if now == '' or not now then
  local time = redis.call('TIME')
  now = time[1] * 1000 + (time[2] - time[2] % 1000) / 1000
else
  now = tonumber(now)
end
local kind = byte(question)
local now6 = pack('>I6', now)
if #question == 4 and (kind == 116 or kind == 99) and byte(plan) ~= 49 then
  local _, r1, r2, r3, w1, w2, w3, w4, w5, n1, n2, n3, c1, c2, c3 = byte(plan, 1, 15)
  local nameslen = (n1 * 128 + n2) * 128 + n3
  local rules = (c1 * 128 + c2) * 128 + c3
  local names = sub(plan, 16 + 8 * rules, 15 + 8 * rules + nameslen)
  local retained, longest, stored, count, last = 0, 0, nameslen, 0, 0
  local quick = nameslen > 0
  if blob then
    quick = quick and byte(blob) == 65
    if quick then
      retained, longest, stored = unpack('>I3I5I3', blob, 2)
      quick = stored == nameslen and sub(blob, 13, 12 + stored) == names
    end
    if quick then
      count = (#blob - 12 - stored) / 6
      last = unpack('>I6', blob, #blob - 5)
      quick = last <= now
    end
  end
  if quick then
    local d1, d2, d3 = byte(question, 2, 4)
    local weight = (d1 * 128 + d2) * 128 + d3
    local at, size = now, blob and #blob or 0
    -- The rules come with the smallest count first: where one has places beyond all that is stored, so have the rest.
    for pos = 16, 8 + 8 * rules, 8 do
      local m1, m2, m3, v1, v2, v3, v4, v5 = byte(plan, pos, pos + 7)
      local places = (m1 * 128 + m2) * 128 + m3 - weight + 1
      if places > count then break end
      if places < 1 then
        at = 9e15
        break
      end
      local window = (((v1 * 128 + v2) * 128 + v3) * 128 + v4) * 128 + v5
      local free = (places == 1 and last or (unpack('>I6', blob, size - 6 * places + 1))) + window
      if free > at then at = free end
    end
    if at > now or kind == 99 then
      if kind == 99 or byte(plan) == 48 then
        return now6 .. 'q' .. pack('>I7', at) .. '0' .. (blob or '')
      end
    else
      local retains = (r1 * 128 + r2) * 128 + r3
      local window = (((w1 * 128 + w2) * 128 + w3) * 128 + w4) * 128 + w5
      local keep = ARGV[3]
      local added = weight == 1 and now6 or string.rep(now6, weight)
      local after
      if retains > retained or window > longest then
        if retained > retains then retains = retained end
        if window > longest then longest = window end
        after = pack('>cI3I5I3', 'A', retains, longest, nameslen) .. names .. sub(blob or '', 13 + nameslen) .. added
      elseif count + weight > 2 * retained then
        after = sub(blob, 1, 12 + nameslen) .. sub(sub(blob, 13 + nameslen) .. added, -6 * retained)
      else
        after = blob .. added
      end
      if longest > tonumber(keep) then keep = longest end
      redis.call('SET', KEYS[1], after, 'PX', keep)
      return now6 .. 'q' .. '\0' .. now6 .. '1' .. (blob or '')
    end
  end
end
