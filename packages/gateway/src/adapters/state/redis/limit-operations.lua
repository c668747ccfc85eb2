-- The operations on a subject that is known: goes on with the locals of limit-subject.lua, which tells its keys, arguments
-- and answers.
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

-- Ends the claim of a move of this id, if there is one.
local function endClaim()
  local isClaimed = ask('x', '', 'claim:' .. id, '') == '1'
  if isClaimed then keepKnown() end
  return isClaimed
end

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
  if isFilled then keepKnown() end
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

-- Own arguments: the first instant that is asked for; 1 where the caller plans the subject again if it is late; and the
-- fingerprint, since when its notification is accepted, and the window, ms. Nothing of it leaves meanwhile. Two that were
-- accepted around a loss both took the fingerprint; one of them holds it.
if operation == 'fire' then
  local print = ARGV[18] and call('HGET', prints, ARGV[18])
  if print then
    local since, owner = string.match(print, '^(%d+) (.*)$')
    local apart = since - ARGV[19]
    if owner ~= id and max(apart, -apart) < ARGV[20] + 0 then return { 'none' } end
  end
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
  -- Own arguments of `force`: the instant at which the id counts, where that is to come, and the streams.
  if ARGV[16] and ARGV[16] + 0 > now then
    remove(id)
    restore({ { id, ARGV[16] + 0, true, 1, cjson.decode(ARGV[17]) } })
  end
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
  keepKnown()
  call('ZREM', waiting, id)
  return { 'ok', answer, pauseFor(id) }
end

-- Own arguments: the instant on record, the streams, and 1 where a later instant is kept. It asks without limits, as `fill`.
-- A claim that a killed process has left ends.
if operation == 'adopt' then
  local kept = ARGV[18] == '1' and placeOf(id) or 0
  if not endClaim() and kept > 0 and kept >= ARGV[16] + 0 then return { 'none' } end
  answer = given()
  if type(answer) == 'table' then return answer end
  at, done = read(answer)
  if done == '0' then return { 'none' } end
  remove(id)
  at = max(kept, ARGV[16] + 0)
  restore({ { id, at, false, 1, cjson.decode(ARGV[17]) } })
  note(id, at)
  return { 'ok', answer }
end

-- Own arguments: the streams; then 'earlier', and the promise; or 'look'; or 'claim', the slot that it has, the new one; or
-- 'to', the same; or 'drop'. 'earlier' takes an earlier slot, 'look' tells it. 'claim' holds this one only, beside the slot
-- that the id has: others see both as taken until 'to' leaves the old one or 'drop' leaves the new one. 'to' has 'none' where
-- the claim was lost, for the new slot may be another's. The last one: 1 for a newcomer, which stays where it is while others
-- move up.
if operation == 'advance' then
  local streams, way, first = cjson.decode(ARGV[16]), ARGV[17], (ARGV[18] or 0) + 0
  local from, claim = placeOf(id), 'claim:' .. id
  local isClaimed = (way == 'drop' or way == 'to') and endClaim()
  if way == 'drop' or (way == 'to' and from ~= first) then return { 'ok', pauseFor('') } end
  if not from or (way == 'claim' and from ~= first) or (way == 'to' and not isClaimed) then return { 'none' } end
  if way == 'to' then
    remove(id)
    at = ARGV[19] + 0
    restore({ { id, at, false, 1, streams } })
    note(id, at)
    return { 'ok', pauseFor(id) }
  end
  if ARGV[20] == '1' and next(holdsOf()) ~= nil then return { 'none' } end
  remove(id)
  answer = given()
  if type(answer) == 'table' then return answer end
  at, done = read(answer)
  if done ~= '0' and way == 'earlier' and at < from then
    note(id, at)
    return { 'ok', answer, from, at, pauseFor(id) }
  end
  if done ~= '0' then remove(id) end
  restore({ { id, from, false, 1, streams } })
  if way == 'claim' and done ~= '0' and at == ARGV[19] + 0 then
    restore({ { claim, at, true, 1, streams } })
    return { 'ok', answer }
  end
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
