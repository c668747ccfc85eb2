-- The room of one tenant. KEYS[1] is a hash:
--
--   h     incarnation and generation
--   w<m>  the use of the member m, for which this value is known: number of its last word, queue, waiting, bytes, instant of the word. The use is
--         absolute: the member's notifications on record, and the room that it has taken and not yet committed. So no
--         count drifts, and no two members write the same field. Behind it stand the places and bytes of it that
--         nothing has taken yet: the member gives them to requests that come within a moment, without a word
--   x<m>  the member m has gone, and its word does not count: the instant at which a process said so last
--   r, c  until when a caller fills this value, and the token of its claim
--
-- ARGV[7]  JSON: d members that have gone, m the member; of a fill g the generation, and w the use of each member; else
--          s the number of this word, o its own use, b bounds, r requests in their order, a the places and bytes that it
--          would have ahead, which it gets up to half the bounds; n 1 where it has had no answer of this tenant. A room in
--          which a member stands that has gone, or of whose end it does not know, is unknown, for what that had taken is
--          on record or is lost. So is one from before a member came: whoever was killed then has perhaps not told its
--          last moves into the queue, and all that would find it dead may be killed, too
-- ARGV[8]  a token that no other claim has; of a fill the token of the claim that it fills, or keeps
-- ARGV[9]  the least generation that the record accepts, as the caller knows it; not of a fill
-- returns  'clock'; 'late' behind a later word, of a member that has gone, and of a fill whose claim is no more;
--          {'?', 1 where the caller is to fill the value}; else {'ok', generation, use of the others, with
--          the places and bytes of it that they have ahead, of each request: 0 where it was taken, else the bound that
--          is full (1 queue, 2 waiting, 3 bytes) and its use; 1 where the member has got what it would have ahead}
local given, token = cjson.decode(ARGV[7]), ARGV[8]
-- The field of a member that uses nothing, or has gone, is kept so long, because a late word of it could still come, ms.
local fillMs, idleMs, forgottenMs = 2000, 86400000, 3600000
local packed = call('HGET', key, 'h')
local known = packed and cmsgpack.unpack(packed)
if known and (known[1] ~= incarnation or known[2] < (ARGV[9] or 0) + 0) then known = nil end

local function noteGone()
  for _, gone in ipairs(given.d) do call('HSET', key, 'x' .. gone, now) end
end

-- Forgets the uses. Which members have gone stays, and which have come: processes that know of different ones would fill it
-- in turn, for ever.
local function clear()
  for _, field in ipairs(call('HKEYS', key)) do
    local kind = string.sub(field, 1, 1)
    if kind == 'w' then
      call('HSET', key, field, cmsgpack.pack({ 0, 0, 0, 0, now }))
    elseif kind ~= 'x' then
      call('HDEL', key, field)
    end
  end
end

if operation == 'fill' or operation == 'keep' then
  -- The record of a claim that was lost since, or has lapsed, may lack what was taken behind it.
  if call('HGET', key, 'c') ~= token then return 'late' end
  if operation == 'keep' then
    -- A long record takes longer to read than a claim lasts.
    call('HSET', key, 'r', now + fillMs)
    call('PEXPIRE', key, fillMs)
    return { 'ok' }
  end
  clear()
  call('HSET', key, 'h', cmsgpack.pack({ incarnation, given.g }))
  if given.m then call('HSET', key, 'w' .. given.m, cmsgpack.pack({ 0, 0, 0, 0, now })) end
  for _, gone in ipairs(given.d) do call('HDEL', key, 'w' .. gone) end
  for _, each in ipairs(given.w) do
    call('HSET', key, 'w' .. each[1], cmsgpack.pack({ 0, each[2], each[3], each[4], now }))
  end
  noteGone()
  call('PEXPIRE', key, 2 * idleMs)
  return { 'ok', given.g }
end

-- A member that has gone may have changed the record behind the last fill, and have said nothing of it here.
for _, gone in ipairs(given.d) do
  if known and (call('HEXISTS', key, 'w' .. gone) == 1 or call('HEXISTS', key, 'x' .. gone) == 0) then known = nil end
end
if given.n and call('HEXISTS', key, 'w' .. given.m) == 0 then known = nil end

if not known then
  local filling = call('HGET', key, 'r')
  if filling and filling + 0 > now and filling + 0 <= now + fillMs then return { '?', 0 } end
  clear()
  call('HSET', key, 'r', now + fillMs, 'c', token)
  call('PEXPIRE', key, fillMs)
  return { '?', 1 }
end
noteGone()

local queue, waiting, bytes, aheadQueue, aheadBytes, said = 0, 0, 0, 0, 0, -1
local fields = call('HGETALL', key)
for index = 1, #fields, 2 do
  local field = fields[index]
  if string.sub(field, 1, 1) == 'w' then
    local used = cmsgpack.unpack(fields[index + 1])
    if field == 'w' .. given.m then
      said = used[1]
    elseif used[2] == 0 and used[3] == 0 and used[4] == 0 and used[5] < now - forgottenMs then
      call('HDEL', key, field)
    else
      queue, waiting, bytes = queue + used[2], waiting + used[3], bytes + used[4]
      aheadQueue, aheadBytes = aheadQueue + (used[6] or 0), aheadBytes + (used[7] or 0)
    end
  elseif field == 'x' .. given.m then
    -- It was stopped, was declared dead, and does not know it yet. Who joined later would not know it either.
    return 'late'
  elseif string.sub(field, 1, 1) == 'x' and fields[index + 1] + 0 < now - forgottenMs then
    call('HDEL', key, field)
  end
end
-- A word that comes behind a later one, over a connection that was given up, changes nothing.
if given.s <= said then return 'late' end

local others, own, answers, bounds = { queue, waiting, bytes, aheadQueue, aheadBytes }, given.o, {}, given.b
for index, request in ipairs(given.r) do
  local newQueue, newCritical, newWaiting, newBytes = request[1], request[2], request[3], request[4]
  local usedQueue, usedWaiting, usedBytes = queue + own[1], waiting + own[2], bytes + own[3]
  local isCritical = newCritical > 0 and newQueue + newWaiting == 0
  local full, used = 0, 0
  if newWaiting > 0 and usedWaiting + newWaiting > bounds[2] then
    full, used = 2, usedWaiting
  elseif (newQueue > 0 and usedQueue + newQueue > bounds[1])
    or (newCritical > 0 and usedQueue + newQueue + newCritical > bounds[1] + math.ceil(bounds[1] / 10)) then
    full, used = 1, usedQueue
  elseif newBytes > 0 and usedBytes + newBytes > bounds[3] * (isCritical and 1.1 or 1) then
    full, used = 3, usedBytes
  else
    own = { own[1] + newQueue + newCritical, own[2] + newWaiting, own[3] + newBytes }
  end
  answers[2 * index - 1], answers[2 * index] = full, used
end
local ahead = given.a
if 2 * (queue + own[1] + ahead[1]) > bounds[1] or 2 * (bytes + own[3] + ahead[2]) > bounds[3] then ahead = { 0, 0 } end
local use = { given.s, own[1] + ahead[1], own[2], own[3] + ahead[2], now, ahead[1], ahead[2] }
call('HSET', key, 'w' .. given.m, cmsgpack.pack(use))
call('PEXPIRE', key, 2 * idleMs)
return { 'ok', known[2], others, answers, ahead[1] > 0 and 1 or 0 }
