-- A token bucket as buckets.ts reckons it: how much is missing, in tokens times the milliseconds of the refill window.
--
-- KEYS[1]  the bucket
-- ARGV[1]  capacity   ARGV[2]  refill   ARGV[3]  its window, ms   ARGV[4]  cost   ARGV[5]  1 where it counts, d drops it
-- ARGV[6]  epoch ms in place of the server's TIME, or empty
-- returns  in msgpack: now in epoch ms, and how much was missing before the call
--
-- State in msgpack: missing, when, window. The key lives until the bucket is full again; under a given clock
-- for an hour, since keys end by the server's.
if ARGV[5] == 'd' then return redis.call('DEL', KEYS[1]) end
local capacity, refill, window, cost = ARGV[1] + 0, ARGV[2] + 0, ARGV[3] + 0, ARGV[4] + 0
local now, missing = ARGV[6], 0
if now == '' then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
else
  now = now + 0
end
local state = redis.call('GET', KEYS[1])
if state then
  local isOurs, before, at, length, more = pcall(cmsgpack.unpack, state)
  if not isOurs or more or not (type(before) == 'number' and type(at) == 'number' and type(length) == 'number') then
    return redis.error_reply('INVALIDSTATE the key holds something else than a bucket')
  end
  missing = before
  if length ~= window then missing = math.ceil(missing / length * window) end
  missing = math.min(math.max(0, missing - math.max(0, now - at) * refill), capacity * window)
end
local after = missing + cost * window
if ARGV[5] == '1' and after <= capacity * window then
  local keep = ARGV[6] == '' and math.ceil(after / refill) or 3600000
  redis.call('SET', KEYS[1], cmsgpack.pack(after, now, window), 'PX', keep)
end
return cmsgpack.pack(now, missing)
