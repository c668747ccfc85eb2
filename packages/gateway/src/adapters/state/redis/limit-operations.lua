-- The limits of one subject, in four keys of one slot. Every decision is made by the script of @sluice/limits, which stands
-- before this part as the function `limits`; this part knows which subjects are unknown, who waits, and who is paused.
--
-- KEYS[1]  the value of @sluice/limits
-- KEYS[2]  about, a hash: r the registration of the server and the rules that the value was filled under; f until when and
--          under which token a caller fills it; p the holds, by their tokens: how long they last, and for the floor of
--          newcomers its instant, or of one under which the subject is planned again a true
-- KEYS[3]  waiting, a sorted set: ids by the instant to come that they hold, those that hold none at +inf
-- KEYS[4]  fingerprints, a hash: the instant since when an id holds each, and the id
--
-- ARGV[7]  the name of the rules; ARGV[8] a token that no other call has
-- ARGV[9] to ARGV[15]  the arguments of @sluice/limits, where the operation asks it; behind them the operation's own,
--          from ARGV[16] on
-- returns  'clock'; {'?', 1 where the caller is to fill the subject}; {'paused'}; {'none'}; {'held', instant};
--          else {'ok', the answer of @sluice/limits, what the operation adds}
--
-- A subject is known only while both its value and the mark in `about` are there: a loss of either is a loss of both.
local about, waiting, prints = KEYS[2], KEYS[3], KEYS[4]
local mark, token = incarnation .. ' ' .. ARGV[7], ARGV[8]
-- A fill is given up after so long; a hold, after its process was last heard of; a mark is forgotten. Those that wait
-- less than `nearMs` leave no place to others. ms
-- A value is kept so long at least: one that has gone is filled from the record again. From so many bytes on it is a hash.
local keptMs, longMin = '3600000', '8192'
local fillMs, holdMs, markMs, nearMs = 2000, 5000, 86400000, 1000
-- A subject with more fields than that is not planned again: reading it would hold the server up.
local plannedMax = 5000
-- Above so many fingerprints those beyond their window are dropped.
local printsMax = 64
-- An id with an instant on record up to so far ahead may have left already, ms.
local leavesMs = 60000

-- Asks @sluice/limits under this key at this instant. Its arguments: what stands in redis-quick.lua of its source.
local function ask(question, header, id, terms)
  return limits({ key }, { question, header, now, id, terms, keptMs, longMin })
end

local function given()
  return ask(ARGV[9], ARGV[10], ARGV[12], ARGV[13])
end

-- The instant of an answer, and what was done: 0 nothing, 1 counted, 2 booked.
local function read(answer)
  if string.byte(answer) == 114 then
    local at, done = string.match(answer, '^r%d+,(%d+),(%d)')
    return at + 0, done
  end
  return unpack('>I7', answer, 8), string.sub(answer, 15, 15)
end

local function remove(id) return ask('x', '', id, '') end

local function restore(rows) return ask('s', '', '', cjson.encode(rows)) end

local function live(name, ms)
  if call('PTTL', name) < ms then call('PEXPIRE', name, ms) end
end

-- Notes where an id waits: at an instant to come, or nowhere.
local function note(id, at)
  if at > now and at < 9e15 then
    call('ZREMRANGEBYSCORE', waiting, '-inf', now)
    call('ZADD', waiting, at, id)
    live(waiting, 2 * markMs)
  else
    call('ZREM', waiting, id)
  end
end

-- The instant to come that an id holds.
local function placeOf(id)
  local at = call('ZSCORE', waiting, id)
  if not at or at == 'inf' or at + 0 <= now then return nil end
  return at + 0
end

-- True if other ids than this one wait.
local function isAwaited(id)
  for _, each in ipairs(call('ZRANGEBYSCORE', waiting, '(' .. now, '+inf', 'LIMIT', 0, 2)) do
    if each ~= id then return true end
  end
  return false
end

local row = call('HMGET', about, 'r', 'p', 'f')

-- The holds that have not lapsed.
local function holdsOf()
  if not row[2] then return {} end
  local holds = cmsgpack.unpack(row[2])
  for name, hold in pairs(holds) do
    if hold[1] <= now or (hold[2] and hold[2] <= now) then holds[name] = nil end
  end
  return holds
end

local function keepHolds(holds)
  if next(holds) == nil then
    call('HDEL', about, 'p')
    row[2] = false
    return
  end
  row[2] = cmsgpack.pack(holds)
  call('HSET', about, 'p', row[2])
  live(about, holdMs)
end

-- Sets holds: of each its token, the floor of newcomers or false, and true where the subject is planned under it. One that
-- is renewed stays what it was.
local function hold(given)
  local holds = holdsOf()
  for _, each in ipairs(given) do
    local before = holds[each[1]]
    holds[each[1]] = { now + holdMs, each[2] or false, each[3] or before and before[3] or false }
  end
  keepHolds(holds)
end

-- True while a caller plans the subject again.
local function isPlanned()
  for _, each in pairs(holdsOf()) do if each[3] then return true end end
  return false
end

-- Holds newcomers up where other ids wait for the place of this one; answers 1 then.
local function pauseFor(id)
  if not isAwaited(id) then return 0 end
  hold({ { token, false } })
  return 1
end

if operation == 'hold' then
  hold(cjson.decode(ARGV[9]))
  return { 'ok' }
end
if operation == 'release' then
  local holds = holdsOf()
  for index = 9, #ARGV do holds[ARGV[index]] = nil end
  keepHolds(holds)
  return { 'ok' }
end
-- The floor of newcomers: the latest instant that one of these ids holds.
if operation == 'floor' then
  local floor = 0
  for _, id in ipairs(cjson.decode(ARGV[9])) do floor = max(floor, placeOf(id) or 0) end
  if floor > 0 then
    hold({ { token, floor } })
  elseif row[2] then
    local holds = holdsOf()
    holds[token] = nil
    keepHolds(holds)
  end
  return { 'ok', floor > 0 and 1 or 0 }
end
if operation == 'delist' then
  if call('ZSCORE', waiting, ARGV[9]) == 'inf' then call('ZREM', waiting, ARGV[9]) end
  return { 'ok' }
end

local filling, filler
if row[3] then
  filling, filler = string.match(row[3], '^(%d+) (.*)$')
  filling = filling + 0
end
if operation == 'fill' or operation == 'give up' then
  -- Another caller fills it, or has filled it: what was read before that may miss what has left since.
  if filler ~= ARGV[16] then return { 'none' } end
  call('HDEL', about, 'f')
  if operation == 'give up' then return { 'ok' } end
  local rows = cjson.decode(ARGV[13])
  -- Under other rules the value is of no use, and what it knows and the record does not is kept.
  local isKept = row[1] and string.sub(row[1], 1, #incarnation + 1) == incarnation .. ' ' and call('EXISTS', key) == 1
  if isKept then
    for _, each in ipairs(rows) do
      if not each[3] then
        each[2] = placeOf(each[1]) or each[2]
        if each[2] <= now + leavesMs then
          -- A question without limits: an id that counts answers its instant, and any other one is counted, and dropped.
          local answer = ask(ARGV[20], ARGV[21], each[1], '')
          local at, done = read(answer)
          if done == '0' then each[2], each[3] = at, true end
        end
      end
    end
  else
    call('UNLINK', prints)
  end
  call('UNLINK', key, waiting)
  local answer = restore(rows)
  if type(answer) == 'table' then return answer end
  for _, each in ipairs(rows) do if not each[3] and each[2] > now then note(each[1], each[2]) end end
  for _, id in ipairs(cjson.decode(ARGV[17])) do
    call('ZADD', waiting, 'NX', '+inf', id)
    live(waiting, 2 * markMs)
  end
  for _, print in ipairs(cjson.decode(ARGV[18])) do
    call('HSET', prints, print[1], string.format('%.0f %s', print[3], print[2]))
    live(prints, 2 * markMs)
  end
  call('HSET', about, 'r', mark)
  live(about, markMs)
  return { 'ok', answer, ARGV[19] == '1' and pauseFor('') or 0 }
end

if row[1] ~= mark or call('EXISTS', key) == 0 then
  if operation == 'recount' then return { 'none' } end
  if filling and filling > now and filling <= now + fillMs then return { '?', 0 } end
  call('HSET', about, 'f', string.format('%.0f %s', now + fillMs, token))
  live(about, fillMs)
  return { '?', 1 }
end

if operation == 'waiting' then
  return { 'ok', call('ZRANGEBYSCORE', waiting, '(' .. now, '+inf') }
end
if operation == 'enlist' then
  if not placeOf(ARGV[9]) then
    call('ZADD', waiting, '+inf', ARGV[9])
    live(waiting, 2 * markMs)
  end
  return { 'ok' }
end
if operation == 'print' or operation == 'print holder' or operation == 'drop print' then
  local print, id, windowMs = ARGV[9], ARGV[10], (ARGV[11] or 0) + 0
  local first = call('HGET', prints, print)
  local since, owner
  if first then since, owner = string.match(first, '^(%d+) (.*)$') end
  if operation == 'print holder' then return { 'ok', owner or nil, since } end
  if operation == 'drop print' then
    if owner == id then call('HDEL', prints, print) end
    return { 'ok' }
  end
  -- The last argument: an id in whose place the fingerprint is held, for its notification was never accepted.
  if owner and owner ~= id and owner ~= ARGV[13] and now < since + windowMs then return { 'ok', 0 } end
  if ARGV[12] == '1' then return { 'ok', 1 } end
  if call('HLEN', prints) >= printsMax then
    local fields = call('HGETALL', prints)
    for index = 1, #fields, 2 do
      if string.match(fields[index + 1], '^%d+') + windowMs <= now then call('HDEL', prints, fields[index]) end
    end
  end
  call('HSET', prints, print, string.format('%.0f %s', now, id))
  live(prints, max(windowMs, 2 * markMs))
  return { 'ok', 1 }
end

-- What stands under ids, in JSON.
if operation == 'entries' then
  if call('TYPE', key).ok == 'hash' and call('HLEN', key) > plannedMax then return { 'none' } end
  local answer = ask('e', '', '', '')
  if type(answer) == 'table' then return answer end
  return { 'ok', answer }
end
-- Gives ids other instants, without asking the limits: of each the id, the instant that it was planned from, if it counted
-- there, the new one, the streams. One that stands elsewhere by now keeps what it has.
if operation == 'move' then
  local answer = ask('e', '', '', '')
  if type(answer) == 'table' then return answer end
  local known, rows = {}, {}
  for _, each in ipairs(cjson.decode(answer)) do known[each[1]] = each end
  for _, each in ipairs(cjson.decode(ARGV[9])) do
    local own = known[each[1]]
    if own and own[2] == each[2] and own[3] == each[3] then
      remove(each[1])
      rows[#rows + 1] = { each[1], each[4], false, 1, each[5] }
    end
  end
  if #rows > 0 then
    restore(rows)
    for _, each in ipairs(rows) do note(each[1], each[2]) end
  end
  return { 'ok', #rows > 0 and pauseFor('') or 0 }
end

local id = ARGV[12]
local answer, at, done

-- Own arguments: 1 for a newcomer, 1 where limits count it.
if operation == 'reserve' or operation == 'preview' then
  local floor
  if ARGV[16] == '1' and row[2] then
    for _, each in pairs(holdsOf()) do
      if not each[2] then return { 'paused' } end
      floor = max(floor or 0, each[2])
    end
  end
  answer = given()
  if type(answer) == 'table' then return answer end
  at, done = read(answer)
  if done == '0' then return { 'ok', answer } end
  local isBefore = floor and at < floor and ARGV[17] == '1'
  if operation == 'preview' or isBefore then remove(id) else note(id, at) end
  return isBefore and { 'ok', answer, floor } or { 'ok', answer }
end

-- Own arguments: 1 for a preview; the first instant, and how long after it one is held; the streams; and the question
-- without limits, as `fill`. Only what has left stands in the way of an id whose instant has come.
if operation == 'turn' then
  answer = ask(ARGV[20], ARGV[21], id, '')
  if type(answer) == 'table' then return answer end
  at, done = read(answer)
  if done == '0' then return { 'none' } end
  remove(id)
  answer = given()
  if type(answer) == 'table' then return answer end
  at, done = read(answer)
  if done == '0' then return { 'ok', answer } end
  remove(id)
  if ARGV[16] ~= '1' and at - max(now, ARGV[17] + 0) <= ARGV[18] + 0 then
    restore({ { id, at, false, 1, cjson.decode(ARGV[19]) } })
    note(id, at)
  end
  return { 'ok', answer }
end

-- Own arguments: the first instant that is asked for; 1 where the caller plans the subject again if it is late. Nothing of
-- it leaves meanwhile.
if operation == 'fire' then
  if row[2] and isPlanned() then return { 'paused' } end
  -- One that was overdue when the subject was filled may hold a later place: others leave before it.
  local place = placeOf(id)
  if place and place >= ARGV[16] + 0 then return { 'held', place } end
  answer = given()
  if type(answer) == 'table' then return answer end
  at, done = read(answer)
  note(id, done == '1' and 0 or at)
  if done == '1' or at - now <= nearMs then return { 'ok', answer, 0 } end
  if ARGV[17] ~= '1' then return { 'ok', answer, pauseFor(id) } end
  hold({ { token, false, true } })
  return { 'ok', answer, 2 }
end

answer = nil
if operation == 'take' or operation == 'force' or operation == 'recount' then
  answer = given()
  if type(answer) == 'table' then return answer end
  if operation ~= 'take' then call('ZREM', waiting, id) end
  return { 'ok', answer }
end

-- Own arguments of `cancel unless`: the slot stays if it was fired after this instant. It asks without limits, as `fill`.
if operation == 'cancel' or operation == 'cancel unless' then
  answer = given()
  if type(answer) == 'table' then return answer end
  if operation == 'cancel unless' then
    at, done = read(answer)
    if done == '0' and at > ARGV[16] + 0 then return { 'ok', answer, 0 } end
    remove(id)
  end
  call('ZREM', waiting, id)
  return { 'ok', answer, pauseFor(id) }
end

-- Own arguments: the instant on record, and the streams. It asks without limits, as `fill`.
if operation == 'adopt' then
  answer = given()
  if type(answer) == 'table' then return answer end
  at, done = read(answer)
  if done == '0' then return { 'ok', answer } end
  remove(id)
  at = ARGV[16] + 0
  restore({ { id, at, false, 1, cjson.decode(ARGV[17]) } })
  note(id, at)
  return { 'ok', answer }
end

-- Own arguments: the streams; then 'earlier', and the promise; or 'look'; or 'to', the slot that is left, the new one; or
-- 'back', the slot that was left. 'earlier' takes an earlier slot, 'look' tells it, 'to' takes this one only.
if operation == 'advance' then
  local streams, way, first = cjson.decode(ARGV[16]), ARGV[17], (ARGV[18] or 0) + 0
  local from = placeOf(id)
  if way == 'back' then
    remove(id)
    restore({ { id, first, false, 1, streams } })
    note(id, first)
    return { 'ok' }
  end
  if not from or (way == 'to' and from ~= first) then return { 'none' } end
  remove(id)
  answer = given()
  if type(answer) == 'table' then return answer end
  at, done = read(answer)
  if done ~= '0' and (way == 'earlier' and at < from or way == 'to' and at == ARGV[19] + 0) then
    note(id, at)
    return { 'ok', answer, from, at, pauseFor(id) }
  end
  if done ~= '0' then remove(id) end
  restore({ { id, from, false, 1, streams } })
  if way == 'look' then return { 'ok', answer, from, done == '0' and -1 or at } end
  if way == 'earlier' and first < from then return { 'ok', answer, from, from, 0 } end
  return { 'none' }
end

-- An id without limits follows its other subjects.
if operation == 'follow' then
  if placeOf(ARGV[9]) then note(ARGV[9], ARGV[10] + 0) end
  return { 'ok' }
end
return redis.error_reply('ERR unknown operation ' .. operation)
