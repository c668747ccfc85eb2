-- The beginning of every script that keeps a value: the server's incarnation and the time.
--
-- KEYS[1]  the one key of the value
-- ARGV[1]  the incarnation of the server, as the connection knows it: a value that bears another one is unknown
-- ARGV[2]  epoch ms in place of the server's TIME, for tests; or empty
-- ARGV[3]  how far the fleet's time is ahead of the server's clock, ms
-- ARGV[4], ARGV[5]  the first and the last instant at which this call may be worked, epoch ms of the fleet
-- ARGV[6]  the operation; behind it stand its own arguments
local key, incarnation, operation = KEYS[1], ARGV[1], ARGV[6]
local call, pack, unpack, floor, max, min = redis.call, struct.pack, struct.unpack, math.floor, math.max, math.min
-- Nothing is ever free: the largest number that takes 6 bytes.
local never = 281474976710655

local now
if ARGV[2] ~= '' then
  now = ARGV[2] + 0
else
  local time = call('TIME')
  now = floor(time[1] * 1000 + time[2] / 1000 + ARGV[3])
  -- A clock that stepped, or a call that comes when its caller has given up: nothing is done for it.
  if now < ARGV[4] + 0 or now > ARGV[5] + 0 then return 'clock' end
end
