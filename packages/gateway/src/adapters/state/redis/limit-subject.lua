-- The limits of one subject, in four keys of one slot. Every decision is made by the script of @sluice/limits, which stands
-- before this part as the function `limits`; this part knows which subjects are unknown, who waits, and who is paused, and
-- fills them; limit-operations.lua goes on with its locals.
--
-- KEYS[1]  the value of @sluice/limits
-- KEYS[2]  about, a hash: r the registration of the server and the rules that the value was filled under; f until when and
--          under which token a caller fills it; x that a fill was void, or the token of the claim that nothing makes void;
--          p the holds, by their tokens: how long they last, and for the floor of
--          newcomers its instant, or of one under which the subject is planned again a true
-- KEYS[3]  waiting, a sorted set: ids by the instant to come that they hold, those that hold none at +inf
-- KEYS[4]  fingerprints, a hash: the instant since when an id holds each, and the id
--
-- ARGV[6]  the operation; a '!' before it: the record was read under the claim of this token, and has nothing of the
--          subject, which is filled with nothing and then asked
-- ARGV[7]  the name of the rules, a policy first; ARGV[8] a token that no other call has
-- ARGV[9] to ARGV[15]  the arguments of @sluice/limits, where the operation asks it; behind them the operation's own,
--          from ARGV[16] on
-- returns  'clock'; {'?', 1 where the caller is to fill the subject}; {'paused'}; {'none'}; {'held', instant};
--          else {'ok', the answer of @sluice/limits, what the operation adds}
--
-- A subject is known only while both its value and the mark in `about` are there: a loss of either is a loss of both.
local about, waiting, prints = KEYS[2], KEYS[3], KEYS[4]
local mark, token = incarnation .. ' ' .. ARGV[7], ARGV[8]
-- A value is kept for `keptMs` at least: one that has gone is filled from the record again. From `longMin` bytes on it is a
-- hash.
local keptMs, longMin = '3600000', '8192'
-- A claim to fill lapses after `fillMs`, a hold `holdMs` after its process was last heard of, a mark after `markMs`. A
-- notification that waits less than `nearMs` leaves no place to others. ms
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

local function restore(rows) return ask('s', '', '', cjson.encode(rows)) end

-- A value without ids is none, and its subject would be unknown: an id that no limit counts keeps it (limit-calls.ts).
local function keepKnown()
  if call('EXISTS', key) == 0 then restore({ { '.', now, true, 1, {} } }) end
end

local function remove(id)
  ask('x', '', id, '')
  keepKnown()
end

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

local row = call('HMGET', about, 'r', 'p', 'f', 'x')

-- True where there is a value of this registration, filled under other rules: what it knows of ids on record is kept.
local function isKept()
  return row[1] and string.sub(row[1], 1, #incarnation + 1) == incarnation .. ' ' and call('EXISTS', key) == 1
end

-- The policy in the name of rules; behind a space the mark of the policies that were left.
local function policyOf(name)
  local space = string.find(name, ' ', 1, true)
  return space and string.sub(name, 1, space - 1) or name
end

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
-- The floor of newcomers: the latest instant that one of these ids holds. Answers 1 where each of them holds one.
if operation == 'floor' then
  local floor, isWhole = 0, 1
  for _, id in ipairs(cjson.decode(ARGV[9])) do
    local at = placeOf(id)
    if at then floor = max(floor, at) else isWhole = 0 end
  end
  if floor > 0 then
    hold({ { token, floor } })
  elseif row[2] then
    local holds = holdsOf()
    holds[token] = nil
    keepHolds(holds)
  end
  return { 'ok', floor > 0 and isWhole or 0 }
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
if operation == 'fill' or operation == 'give up' or operation == 'keep' then
  -- Another caller fills it, or has filled it: what was read before that may miss what has left since.
  if filler ~= ARGV[16] then return { 'none' } end
  if operation == 'keep' then
    -- The record takes longer to read than a claim lasts.
    call('HSET', about, 'f', string.format('%.0f %s', now + fillMs, filler))
    live(about, fillMs)
    return { 'ok' }
  end
  call('HDEL', about, 'f', 'x')
  if operation == 'give up' then return { 'ok' } end
  local rows = cjson.decode(ARGV[13])
  local wasKept = isKept()
  if wasKept then
    -- What another process has the right to send counts as sent now on record. A value of another policy knows of it where it
    -- waits, or when it was fired: counted as now by each fill, it would hold the subject up for as long as two policies fill
    -- in turn. Where a policy was left, whoever left it may be sending what it asked nobody about.
    local begun, known = {}, {}
    for _, id in ipairs(cjson.decode(ARGV[22])) do begun[id] = true end
    if next(begun) and policyOf(string.sub(row[1], #incarnation + 2)) ~= policyOf(ARGV[7]) and not (call('TYPE', key).ok == 'hash' and call('HLEN', key) > plannedMax) then
      for _, each in ipairs(cjson.decode(ask('e', '', '', ''))) do known[each[1]] = begun[each[1]] and each end
    end
    for _, each in ipairs(rows) do
      local own = known[each[1]]
      if own then each[2], each[3] = own[2], own[3] end
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
  -- 2: those who wait may move up, and have done so a moment ago.
  if ARGV[19] == '2' and wasKept then return { 'ok', answer, 2 } end
  return { 'ok', answer, ARGV[19] ~= '0' and pauseFor('') or 0 }
end

local isFilled = string.sub(operation, 1, 1) == '!'
if isFilled then operation = string.sub(operation, 2) end
local isFilling = filling and filling > now and filling <= now + fillMs
if isFilled and filler == token then
  if not isKept() then call('UNLINK', prints) end
  call('UNLINK', key, waiting)
  call('HDEL', about, 'f', 'x')
  call('HSET', about, 'r', mark)
  live(about, markMs)
  if row[2] then keepKnown() end
elseif row[1] == mark and call('EXISTS', key) == 1 and not (isFilling and row[4] == filler) then
  isFilled = false
  -- A fill under other rules would drop what is counted from here on: its caller reads the record again. Once: while it
  -- does, questions under these rules wait, for those that come again and again would make each of its fills void.
  if filling then
    call('HDEL', about, 'f')
    call('HSET', about, 'x', '')
  end
elseif isFilling then
  return { '?', 0 }
else
  if operation == 'recount' then return { 'none' } end
  call('HSET', about, 'f', string.format('%.0f %s', now + fillMs, token))
  if row[4] then call('HSET', about, 'x', token) end
  live(about, fillMs)
  return { '?', 1 }
end

