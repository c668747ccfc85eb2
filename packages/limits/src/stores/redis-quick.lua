-- The quick way through a question: a subject whose streams have always been counted together, with nothing booked,
-- no ids and nothing in the future, asked by `take` or `check` without an id. One GET, one SET or APPEND, no table, no
-- closure. A string that is long is left to redis-long.lua; else redis-book.lua is tried, and then the general way. All
-- parts make one script.
--
-- KEYS[1]  the subject
-- ARGV[1]  question: kind (t take, c check, f fire, F force, r reserve, p preview; x cancel, s restore, d drop,
--          h has, b block, e entries), then the weight in 3 digits; one more byte: '~' where the subject may be long
--          (redis-long.lua), '+' where there is an id, '*' where a reservation may be refused, else a
--          space; then the plan's rules, as written by redis-wire.ts. Of the rest, from cancel on, the kind alone
-- ARGV[2]  header: the beginning in the store of a subject that knows this plan only
-- ARGV[3]  epoch ms in place of the server's TIME, or empty; this and what follows may be left out
-- ARGV[4]  id, or empty
-- ARGV[5]  empty for plain terms; else in JSON notBefore, horizonMs, flags (1 firm, 2 low, 4 high), and of each
--          forbidden interval from, to, resumeAt; for restore: [[id, at, fired, weight, streams], …]; of a block its ms
-- ARGV[6]  retentionMs of the store
-- ARGV[7]  the number of bytes above which a subject is a hash
--
-- Each argument costs the client and Redis together about a quarter of a microsecond, so that a plain call has two.
-- returns  where it counted on the quick way, the state as it is now; else the way (q quick, g general), now in 6
--          bytes, the instant in 7, what was done (0 nothing, 1 counted, 2 booked), and the state as it was before, of
--          the ids only those that matter; for a long subject what redis-rows.lua tells
--
-- State of a subject that can go this way: the header ('A', retained in 3 digits, longest window in 5, length of the
-- names in 3, names each with its length in 2), then instants of 6 bytes, big endian, to the end. Digits are of base
-- 128, so that headers and plans are valid UTF-8. The key lives an eighth longer than it must, so that its end is
-- moved once in so long and not by each call.
--
-- Measured on 2 busy cores, Redis 7.0, µs of Redis per call in usec_per_call, one rule: GET + SET 1.8, with TIME 2.4,
-- this with SET … PX by each call 4.3, with KEEPTTL 3.8, with APPEND 3.3. APPEND leaves room behind the value: 264
-- bytes a subject at 10 events under six rules, and 230 with SET. One ARGV in struct's own form instead of a header
-- that is compared whole, and an answer of its own beside the state, took 7.5 µs of the server where this takes 6.
local question, header, now = ARGV[1], ARGV[2], ARGV[3]
local byte, sub, pack, unpack = string.byte, string.sub, struct.pack, struct.unpack
local longMin, blob, long = (ARGV[7] or 8192) + 0, nil, nil
if now == '' or not now then
  local time = redis.call('TIME')
  local micros = time[2] + 0
  now = time[1] * 1000 + (micros - micros % 1000) / 1000
else
  now = now + 0
end
local now6 = pack('>I6', now)
local kind, d1, d2, d3, slow, refusals, c1, c2, c3 = byte(question, 1, 9)
local length
if slow == 126 then
  length = redis.pcall('STRLEN', KEYS[1])
  if type(length) == 'table' or length <= longMin or #header == 12 then slow = 32 end
end

if slow ~= 126 then
  blob = redis.pcall('GET', KEYS[1])
  long = type(blob) == 'table'
  if long then
    -- GET refuses a hash, which is how long a subject is kept that has grown; another error is the caller's to know.
    if not string.find(blob.err, 'WRONGTYPE', 1, true) then return blob end
  elseif (kind == 116 or kind == 99) and slow == 32 and not (blob and #blob > longMin) then
    local size, base = #header, blob
    if size == 12 then
      base = nil
    elseif not blob then
      base = header
    elseif sub(blob, 1, size) ~= header then
      base = nil
      if byte(blob) == 65 and sub(blob, 10, size) == sub(header, 10) then
        -- The same streams under several plans: the header tells the largest of each number.
        local a1, a2, a3, b1, b2, b3, b4, b5 = byte(blob, 2, 9)
        local m1, m2, m3, n1, n2, n3, n4, n5 = byte(header, 2, 9)
        local longest = (((b1 * 128 + b2) * 128 + b3) * 128 + b4) * 128 + b5
        local window = (((n1 * 128 + n2) * 128 + n3) * 128 + n4) * 128 + n5
        local isMore = (m1 * 128 + m2) * 128 + m3 > (a1 * 128 + a2) * 128 + a3
        base = 'A' .. sub(isMore and header or blob, 2, 4) .. sub(window > longest and header or blob, 5, 9)
          .. sub(blob, 10)
      end
    end
    if base and refusals ~= 49 then
      local weight = (d1 * 128 + d2) * 128 + d3
      local length = #base
      local count, last, at = (length - size) / 6, 0, now
      if count > 0 then last = unpack('>I6', base, length - 5) end
      -- The rules come with the smallest count first: where one has places beyond all that is stored, so have the rest.
      for pos = 10, 5 + 8 * ((c1 * 128 + c2) * 128 + c3), 8 do
        local m1, m2, m3, v1, v2, v3, v4, v5 = byte(question, pos, pos + 7)
        local places = (m1 * 128 + m2) * 128 + m3 - weight + 1
        if places > count then break end
        if places < 1 then
          at = 9e15
          break
        end
        local window = (((v1 * 128 + v2) * 128 + v3) * 128 + v4) * 128 + v5
        local free = (places == 1 and last or (unpack('>I6', base, length - 6 * places + 1))) + window
        if free > at then at = free end
      end
      if last > now or at > now and kind == 116 and refusals ~= 48 then
        at = nil
      elseif at > now or kind == 99 then
        return 'q' .. now6 .. pack('>I7', at) .. '0' .. (blob or '')
      end
      if at then
        local added = weight == 1 and now6 or string.rep(now6, weight)
        local after, whole = base .. added, base ~= blob
        local m1, m2, m3, v1, v2, v3, v4, v5 = byte(base, 2, 9)
        if count + weight > 256 then
          local retained = (m1 * 128 + m2) * 128 + m3
          if count + weight > 2 * retained then
            after, whole = sub(base, 1, size) .. sub(after, -6 * retained), true
          end
        end
        local keep = math.max((ARGV[6] or 0) + 0, (((v1 * 128 + v2) * 128 + v3) * 128 + v4) * 128 + v5)
        local slack = keep / 8
        if not whole and now - now % slack == last - last % slack then
          redis.call('APPEND', KEYS[1], added)
        else
          redis.call('SET', KEYS[1], after, 'PX', math.ceil(keep + slack))
        end
        return after
      end
    end
  end
end
