-- The effect of each question on the state: cancel, restore, drop, has, entries (for a script around this one), and
-- the questions of a limiter as stores/general-path.ts answers them. A short state goes back to the caller as it was
-- before, and the caller works out rows, names and reasons from it and holds `at` and what was done against its own
-- result. Of a long one redis-rows.lua makes the rows here.
if kind == 100 then return redis.call('DEL', KEYS[1]) == 1 and '1' or '0' end
if long or blob then
  local isOurs = pcall(readState)
  if not isOurs then return redis.error_reply('INVALIDSTATE the key holds something else than limits') end
end
local id = ARGV[4] ~= '' and ARGV[4] or nil

-- has: tells whether anything is retained, as the key may live on for a while where nothing is.
if kind == 104 then
  if not blob and not long then return '0' end
  tend(keptMin)
  for _, lane in ipairs(lanes) do if lane.fired.n + lane.booked.n > 0 then return '1' end end
  readAll()
  for _, entry in pairs(ids) do if entry then return '1' end end
  return '0'
end

-- entries: what is known under ids, in JSON: of each the id, its instant, true where it counts, its weight, its streams.
if kind == 101 then
  readAll()
  local list = {}
  for name, entry in pairs(ids) do
    if entry then
      local streams = {}
      for _, lane in ipairs(entry.lanes) do
        for _, stream in ipairs(namesOf(lane)) do streams[#streams + 1] = stream end
      end
      list[#list + 1] = { name, entry.at, entry.fired, entry.weight, streams }
    end
  end
  return cjson.encode(list)
end

if kind == 120 then
  local entry = entryOf(id)
  if not entry then return '0' end
  takeOut(entry)
  setEntry(id, nil)
  writeState()
  return '1'
end

if kind == 115 then
  for _, one in ipairs(cjson.decode(ARGV[5])) do
    if not entryOf(one[1]) then
      local entry = { at = one[2], fired = one[3], weight = one[4], low = false, lanes = cover(one[5]) }
      putBack(entry)
      setEntry(one[1], entry)
    end
  end
  writeState()
  return '1'
end

-- A block is an id that no stream counts: it is kept, written and dropped like one.
if kind == 98 then
  local before, ms = entryOf(''), ARGV[5] + 0
  setEntry('', ms > 0 and { at = now + ms, weight = 1, fired = true, low = false, lanes = {} } or nil)
  writeState()
  return (before and before.at > now and '1' or '0') .. pack('>I7', now + ms)
end

-- The plan: its streams, the lane of each, its rules.
local rules, refused = {}, {}
local pos = 10 + 8 * five(0, 0, c1, c2, c3)
for index = 1, three(question, pos) do
  local from = pos + 3 + 12 * (index - 1)
  local written, flags = three(question, from + 3), byte(question, from + 11)
  rules[index] = {
    stream = three(question, from) + 1, written = written, max = flags >= 2 and never or written,
    window = five(byte(question, from + 6, from + 10)), refuse = flags % 2 == 1,
  }
end
pos = pos + 3 + 12 * #rules
for index = 1, three(question, pos) do refused[index] = three(question, pos + 3 * index) + 1 end

local chosen, seats = lanes, {}
local text = sub(header, 13)
if #lanes == 1 and lanes[1].text == text and #refused == 0 then
  for _, rule in ipairs(rules) do seats[rule.stream] = lanes[1] end
else
  local streams = readNames(text)
  if #refused > 0 and #refused < #streams then
    local names = {}
    for index, stream in ipairs(refused) do names[index] = streams[stream] end
    cover(names)
  end
  chosen = cover(streams)
  for index, name in ipairs(streams) do
    for _, lane in ipairs(chosen) do if holds(namesOf(lane), name) then seats[index] = lane end end
  end
end
for _, rule in ipairs(rules) do
  local lane = seats[rule.stream]
  if rule.window > lane.longest then lane.longest = rule.window end
  if 2 * rule.written > lane.retained then lane.retained = 2 * rule.written end
end

local terms = termsOf()
local horizon, firm, priority = terms[2], terms[3] % 2 == 1, math.floor(terms[3] / 2)

local block = entryOf('')
local blockedUntil = block and block.at > now and block.at or 0
if blockedUntil > 0 then
  for _, instant in ipairs({ 0, blockedUntil, blockedUntil }) do terms[#terms + 1] = instant end
end

-- The first instant ≥ t in no forbidden interval.
local function leave(t)
  while true do
    local next = t
    for index = 4, #terms, 3 do
      if terms[index] <= t and t < terms[index + 1] and terms[index + 2] > next then next = terms[index + 2] end
    end
    if next == t then return t end
    t = next
  end
end

local own = id and entryOf(id) or nil
if own then takeOut(own) end
local isForce = kind == 70
local books = kind == 114 or kind == 112
local repeated = own and (books or (isTake and own.fired))
local weight = own and own.weight or five(0, 0, d1, d2, d3)
local start = math.max(now, terms[1])
local firstAt = leave(start)

local told, used, wasLong = '', {}, long
if long then
  for index, rule in ipairs(rules) do
    local log = seats[rule.stream].fired
    used[index] = countUntil(log, now) - countUntil(log, now - rule.window)
  end
else
  -- The ids that the caller needs besides the lanes.
  if own then told = '\255' .. id .. '\254' .. writeEntry(own) end
  if blockedUntil > 0 then told = told .. '\255\254' .. writeEntry(block) end
  if books and priority == 2 then
    readAll()
    for name, entry in pairs(ids) do
      if entry and entry ~= own and entry.low and not entry.fired then
        told = told .. '\255' .. name .. '\254' .. writeEntry(entry)
      end
    end
  end
  told = (blob and sub(blob, 1, #blob - #known) or '') .. told
end

local logs
local function look()
  local seen = {}
  logs = {}
  for _, rule in ipairs(rules) do
    local lane = seats[rule.stream]
    seen[lane] = seen[lane] or (isFire and lane.fired or merged(lane))
    logs[rule.stream] = seen[lane]
  end
end

-- The earliest instant ≥ t at which a rule admits so many in a log: see rolling-window.ts.
local function freeIn(log, rule, many, t)
  local places, window = rule.max - many + 1, rule.window
  if places < 1 then return never end
  if log.n < places then return t end
  local first = countUntil(log, t - window)
  -- From run to run: between two ends of runs no block has another first or last instant.
  while log.runs and first + places <= log.n do
    local head, headEnd = unit(log, first + 1)
    local tail, tailEnd = unit(log, first + places)
    if tail - window >= t then return t end
    if tail - head < window then t = head + window end
    first = math.min(headEnd, tailEnd - places + 1)
  end
  while first + places <= log.n do
    local tail = instant(log, first + places)
    if tail - window >= t then break end
    local head = instant(log, first + 1)
    if tail - head < window then t = head + window end
    first = first + 1
  end
  return t
end

local function freeAt(rule, t) return freeIn(logs[rule.stream], rule, weight, t) end

local function verdict(t)
  local all, refuser = true, false
  for _, rule in ipairs(rules) do
    if freeAt(rule, t) > t then
      all = false
      refuser = refuser or rule.refuse
    end
  end
  return all, refuser
end

-- The rules settle first, then the intervals are asked: earliest of rolling-window.ts.
local function earliest()
  local t = firstAt
  while true do
    local past = t
    for _, rule in ipairs(rules) do t = freeAt(rule, t) end
    if t == past then
      t = leave(t)
      if t == past then return t end
    end
  end
end

-- Low bookings give way to a high one, as in stores/eviction.ts: those of one instant by their ids. Answers the instant gained.
local evicted = {}
local function makeRoom(without)
  local low = {}
  readAll()
  for name, entry in pairs(ids) do
    if entry and entry.low and not entry.fired and entry ~= own then
      local near = false
      for _, lane in ipairs(entry.lanes) do near = near or holds(chosen, lane) end
      -- In hexadecimal digits, because Lua compares texts as the server's locale has them.
      local hex = string.gsub(name, '.', function(one) return string.format('%02x', byte(one)) end)
      if near then low[#low + 1] = { id = name, rank = string.format('%016d', entry.at) .. hex, entry = entry } end
    end
  end
  if #low == 0 then return end
  table.sort(low, function(a, b) return a.rank < b.rank end)
  for _, one in ipairs(low) do takeOut(one.entry) end
  look()
  local _, refuser = verdict(firstAt)
  local gained = earliest()
  if refuser or gained >= without or gained - start > horizon then
    for _, one in ipairs(low) do putBack(one.entry) end
    return
  end
  for _, one in ipairs(low) do
    putBack(one.entry)
    look()
    local _, refuses = verdict(firstAt)
    if refuses or not verdict(gained) then
      takeOut(one.entry)
      setEntry(one.id, nil)
      evicted[#evicted + 1] = one.id
    end
  end
  return gained
end

look()
local all, refuser = verdict(firstAt)
refuser = refuser and books and not repeated
local at = firstAt
if repeated then
  at = own.at
elseif isForce then
  at = now
elseif not all then
  at = earliest()
  if books and priority == 2 then
    local gained = makeRoom(refuser and never or at)
    if gained then at, refuser = gained, false end
  end
end

local admits = {}
if long then
  look()
  for index, rule in ipairs(rules) do admits[index] = freeAt(rule, firstAt) <= firstAt end
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
  if long and #refused > 0 then
    look()
    at = earliest()
  end
end

local entry, done = own, countsNow and '1' or (booked and not repeated) and '2' or '0'
if done ~= '0' and kind ~= 112 then
  local low = priority == 1
  if own then low = own.low end
  entry = { at = at, weight = weight, fired = countsNow or books and firm, low = low, lanes = chosen }
elseif isFire then
  entry = nil
end
local writes = entry ~= own or isFire or isTake and not repeated and #refused > 0
