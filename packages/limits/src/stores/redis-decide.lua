-- What each question does to the state that redis-general.lua has read: cancel, restore, drop, has, and the questions
-- of a limiter as stores/weigh.ts works them. Third and last part of the script. No rows, names or reasons are made
-- here: the caller works them out from the state before, and holds `at` and what was done against its own result.
if kind == 104 then return blob and '1' or '0' end
if kind == 100 then return redis.call('DEL', KEYS[1]) == 1 and '1' or '0' end
if blob then readState() end
local id = ARGV[6] ~= '' and ARGV[6] or nil

if kind == 120 then
  local entry = ids[id]
  if not entry then return '0' end
  takeOut(entry)
  ids[id] = nil
  writeState()
  return '1'
end

if kind == 115 then
  for _, one in ipairs(cjson.decode(ARGV[7])) do
    if not ids[one[1]] then
      local entry = { at = one[2], fired = one[3], weight = one[4], low = false, lanes = cover(one[5]) }
      putBack(entry)
      ids[one[1]] = entry
    end
  end
  writeState()
  return '1'
end

-- A block is an id that no stream counts: it is kept, written and dropped like one.
if kind == 98 then
  local before, ms = ids[''], ARGV[7] + 0
  ids[''] = ms > 0 and { at = now + ms, weight = 1, fired = true, low = false, lanes = {} } or nil
  writeState()
  return (before and before.at > now and '1' or '0') .. pack('>I7', now + ms)
end

-- The plan: its streams, the lane of each, its rules.
local plan, streams = ARGV[3], readNames(header, 13, #header - 12)
local pos = 5 + 8 * digits(plan, 2, 3)
local rules, refused = {}, {}
for index = 1, digits(plan, pos, 3) do
  local from = pos + 3 + 12 * (index - 1)
  local flags = byte(plan, from + 11)
  local rule = { stream = digits(plan, from, 3) + 1, written = digits(plan, from + 3, 3) }
  rule.max = flags >= 2 and never or rule.written
  rule.window, rule.refuse = digits(plan, from + 6, 5), flags % 2 == 1
  rules[index] = rule
end
pos = pos + 3 + 12 * #rules
for index = 1, digits(plan, pos, 3) do refused[index] = digits(plan, pos + 3 * index, 3) + 1 end

if #refused > 0 and #refused < #streams then
  local names = {}
  for index, stream in ipairs(refused) do names[index] = streams[stream] end
  cover(names)
end
local chosen, seats = cover(streams), {}
for index, name in ipairs(streams) do
  for _, lane in ipairs(chosen) do if holds(lane.names, name) then seats[index] = lane end end
end
for _, rule in ipairs(rules) do
  local lane = seats[rule.stream]
  lane.longest = math.max(lane.longest, rule.window)
  lane.retained = math.max(lane.retained, 2 * rule.written)
end

local terms = ARGV[7] and ARGV[7] ~= '' and cjson.decode(ARGV[7]) or { 0, 2e16, 'n', false }
local notBefore, horizon, priority, firm = terms[1], terms[2], terms[3], terms[4]
local block = ids['']
if block and block.at > now then
  local last = #terms
  terms[last + 1], terms[last + 2], terms[last + 3] = 0, block.at, block.at
end

-- The first instant ≥ t in no forbidden interval.
local function leave(t)
  while true do
    local next = t
    for index = 5, #terms, 3 do
      if terms[index] <= t and t < terms[index + 1] and terms[index + 2] > next then next = terms[index + 2] end
    end
    if next == t then return t end
    t = next
  end
end

local own = id and ids[id]
if own then takeOut(own) end
local isTake, isFire, isForce = kind == 116, kind == 102, kind == 70
local books = kind == 114 or kind == 112
local repeated = own and (books or (isTake and own.fired))
local weight = own and own.weight or digits(question, 2, 3)
local start = math.max(now, notBefore)
local firstAt = leave(start)

local logs
local function look()
  local seen = {}
  logs = {}
  for index, lane in ipairs(seats) do
    seen[lane] = seen[lane] or (isFire and lane.fired or merged(lane))
    logs[index] = seen[lane]
  end
end

-- The earliest instant ≥ t at which one rule admits: see rolling-window.ts.
local function freeAt(rule, t)
  local log, places, window = logs[rule.stream], rule.max - weight + 1, rule.window
  if places < 1 then return never end
  local first = #log < places and #log or countUntil(log, t - window)
  while first + places <= #log do
    local head, tail = log[first + 1], log[first + places]
    if tail - window >= t then break end
    if tail - head < window then t = head + window end
    first = first + 1
  end
  return t
end

local function verdict()
  local all, refuser = true, false
  for _, rule in ipairs(rules) do
    if freeAt(rule, firstAt) > firstAt then
      all = false
      refuser = refuser or rule.refuse
    end
  end
  return all, refuser
end

local function admitsAll(t)
  for _, rule in ipairs(rules) do if freeAt(rule, t) > t then return false end end
  return true
end

-- The rules settle first, then the intervals are asked: earliest of rolling-window.ts.
local function earliest()
  local t = firstAt
  while true do
    local moved
    repeat
      moved = false
      for _, rule in ipairs(rules) do
        local next = freeAt(rule, t)
        if next >= never then return never end
        if next > t then t, moved = next, true end
      end
    until not moved
    local open = leave(t)
    if open == t or open >= never then return open end
    t = open
  end
end

local function before(a, b)
  if a.at ~= b.at then return a.at < b.at end
  for index = 1, math.min(#a.id, #b.id) do
    local x, y = byte(a.id, index), byte(b.id, index)
    if x ~= y then return x < y end
  end
  return #a.id < #b.id
end

-- Low bookings give way to a high one, as in stores/eviction.ts. Answers the instant gained and who is out.
local function makeRoom(without)
  local low = {}
  for name, entry in pairs(ids) do
    local near = false
    for _, lane in ipairs(entry.lanes) do near = near or holds(chosen, lane) end
    if near and entry.low and not entry.fired and entry ~= own then
      low[#low + 1] = { id = name, at = entry.at, entry = entry }
    end
  end
  if #low == 0 then return end
  table.sort(low, before)
  for _, one in ipairs(low) do takeOut(one.entry) end
  look()
  local _, refuser = verdict()
  local gained = earliest()
  if refuser or gained >= without or gained - start > horizon then
    for _, one in ipairs(low) do putBack(one.entry) end
    return
  end
  for _, one in ipairs(low) do
    putBack(one.entry)
    look()
    local _, refuses = verdict()
    if refuses or not admitsAll(gained) then
      takeOut(one.entry)
      ids[one.id] = nil
    end
  end
  return gained
end

look()
local all, refuser = verdict()
refuser = refuser and books and not repeated
local at = firstAt
if repeated then
  at = own.at
elseif isForce then
  at = now
elseif not all then
  at = earliest()
  if books and priority == 'h' then
    local gained = makeRoom(refuser and never or at)
    if gained then at, refuser = gained, false end
  end
end

local countsNow = isForce or ((isTake or isFire) and not repeated and at == now)
local booked = at <= unlimited
if isFire then
  booked = booked and not countsNow
else
  booked = booked and books and at - start <= horizon and not refuser
end
if isTake and not countsNow and not repeated then
  local seen = {}
  for _, stream in ipairs(refused) do
    if not seen[seats[stream]] then insert(seats[stream].fired, now, weight) end
    seen[seats[stream]] = true
  end
end

local entry = own
if countsNow then
  entry = { at = now, weight = weight, fired = true, low = own and own.low or false, lanes = chosen }
elseif isFire then
  entry = booked and { at = at, weight = weight, fired = false, low = own and own.low or false, lanes = chosen } or nil
elseif booked and not repeated and kind == 114 then
  entry = { at = at, weight = weight, fired = firm, low = priority == 'l', lanes = chosen }
end
if entry then putBack(entry) end
if id then ids[id] = entry end
local writes = isForce or isFire or (kind == 114 and not repeated and booked)
  or (isTake and not repeated and (countsNow or #refused > 0))
if writes then writeState() end
local done = countsNow and '1' or (booked and not repeated) and '2' or '0'
return 'g' .. now6 .. pack('>I7', at) .. done .. (blob or '')
end)()
