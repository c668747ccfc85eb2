-- Account slots of one shard, as slots.ts counts them, for all accounts of a question at once. The accounts are
-- columns: a field holds one number of every account, so that reading and writing them are a few calls of
-- cmsgpack, and what is done for each account is a few lines of arithmetic: 0.5 µs an account, where a key for each took
-- 3.0 µs by GET and SET of 110 bytes alone (Redis 7.0, 2 busy cores).
--
-- KEYS[1]  the shard
-- ARGV[1]  l lease, p probe, b block
-- ARGV[2]  width of a slot, µs       ARGV[3]  epoch µs in place of the server's TIME, or empty
-- of l, p: ARGV[4]  name of the roster: which accounts are meant, with their windows
--          ARGV[5]  how many tokens each of them wants, 3 digits of base 128
--          ARGV[6]  the roster in JSON, or empty: [[account, …], [[windowMs, width, run, [max or -1, …]], …]]
--          ARGV[7]  how long a probe is waited for, ms
-- of b:    ARGV[4]  account   ARGV[5]  until, epoch ms; 0 lifts   ARGV[6]  1 half open   ARGV[7]  how long to keep, ms
-- ARGV[8]  1 where slots that are new wait until short windows are over
-- returns  '?' where the roster is not known; of b '1'; else in msgpack: µs left of the slot, tokens granted by
--          place in the roster, and of each closed account its place, its until, and 1 where it is half open
--
-- Fields: head (last instant, how far this clock is ahead of the server's, slot, number of accounts; of slots that wait the
-- one in which they were new, and the first that grants), names, taken (in
-- this slot, by account), windows ([windowMs, width, run, ring slot]), <windowMs>:sum (taken in the run before this
-- slot) and <windowMs>:<n> (taken in one slot of the ring), blocks (by account: until, half open, probe until); of a
-- roster <name>:map (its accounts), <name>:rules (windows and maxima), <name>:free (slot, tokens at its beginning).
local key, kind = KEYS[1], ARGV[1]
local call, pack, unpack, byte, floor = redis.call, cmsgpack.pack, cmsgpack.unpack, string.byte, math.floor
local micros = ARGV[3]
if micros == '' then
  local time = call('TIME')
  micros = time[1] * 1000000 + time[2]
else
  micros = micros + 0
end

local function column(field)
  local text = call('HGET', key, field)
  return text and unpack(text) or {}
end

-- The numbers of accounts, which are given in the order in which they first came.
local function enrol(wanted)
  local names, places, found, before = column('names'), {}, {}, 0
  for index, name in ipairs(names) do places[name] = index end
  before = #names
  for index, name in ipairs(wanted) do
    if not places[name] then
      names[#names + 1] = name
      places[name] = #names
    end
    found[index] = places[name]
  end
  if #names > before then call('HSET', key, 'names', pack(names)) end
  return found, #names
end

local head, slotMicros = call('HGET', key, 'head'), ARGV[2] + 0
if not head and call('EXISTS', key) == 1 then
  return redis.error_reply('INVALIDSTATE the key holds something else than slots')
end
local last, ahead, slot, count = micros, 0, floor(micros / slotMicros), 0
local born, coldUntil = ARGV[8] == '1' and slot or 0, 0
if head then
  local old = unpack(head)
  last, ahead, slot, count = old[1], old[2], old[3], old[4]
  born, coldUntil = old[5] or 0, old[6] or 0
end

if kind == 'b' then
  local found, total = enrol({ ARGV[4] })
  local blocks, until_ = column('blocks'), ARGV[5] + 0
  -- A block tells nothing of when the first is asked for.
  if not head and born > 0 then born = -1 end
  blocks[found[1]] = until_ > 0 and { until_, ARGV[6] + 0, 0 } or nil
  call('HSET', key, 'head', pack({ last, ahead, slot, total, born, coldUntil }))
  if next(blocks) then call('HSET', key, 'blocks', pack(blocks)) else call('HDEL', key, 'blocks') end
  if call('PTTL', key) < ARGV[7] + 0 then call('PEXPIRE', key, ARGV[7]) end
  return '1'
end

-- A server's clock that steps back stands still here until it moves on.
if micros + ahead < last then ahead = last - micros end
last = micros + ahead

local roster = ARGV[4]
local known = call('HMGET', key, roster .. ':map', roster .. ':free', 'taken', 'blocks')
if not known[1] and ARGV[6] == '' then return '?' end
local closed = known[4] and unpack(known[4])
local taken = known[3] and unpack(known[3])

-- The next slot: what was taken goes into the rings, and what leaves their runs goes out of the sums.
local now, fresh = floor(last / slotMicros), false
if now ~= slot then
  local windows = column('windows')
  for _, window in ipairs(windows) do
    local length, width, run, at = window[1], window[2], window[3], window[4]
    local to, sums = floor(now / width), nil
    if taken then
      local field = length .. ':' .. at % run
      local row = call('HGET', key, field)
      sums = column(length .. ':sum')
      if row then
        row = unpack(row)
        for index = 1, count do row[index] = (row[index] or 0) + (taken[index] or 0) end
        call('HSET', key, field, pack(row))
      else
        call('HSET', key, field, known[3])
      end
      for index = 1, count do sums[index] = (sums[index] or 0) + (taken[index] or 0) end
    end
    for leaving = math.max(at, to - run) + 1, to do
      local field = length .. ':' .. leaving % run
      local row = call('HGET', key, field)
      if row then
        row, sums = unpack(row), sums or column(length .. ':sum')
        for index = 1, #row do sums[index] = sums[index] - row[index] end
        call('HDEL', key, field)
      end
    end
    window[4] = to
    if sums then call('HSET', key, length .. ':sum', pack(sums)) end
  end
  slot, taken, fresh = now, nil, true
  call('HSET', key, 'windows', pack(windows))
  call('HDEL', key, 'taken')
end

if born < 0 then born = slot end

local rules
if not known[1] then
  local given, windows, isOrdered = cjson.decode(ARGV[6]), column('windows'), true
  local map, learnt, rosters = nil, {}, column('rosters')
  map, count = enrol(given[1])
  for index, place in ipairs(map) do isOrdered = isOrdered and index == place end
  for _, window in ipairs(windows) do learnt[window[1]] = true end
  rules = given[2]
  for _, rule in ipairs(rules) do
    -- Nobody waits for the end of long windows: those are for whoever has their use on record.
    if born > 0 and rule[2] == 1 then coldUntil = math.max(coldUntil, born + rule[3]) end
    if not learnt[rule[1]] then windows[#windows + 1] = { rule[1], rule[2], rule[3], floor(slot / rule[2]) } end
  end
  -- Rosters change seldom; those of processes that are gone are dropped, and asked for again where they are not.
  rosters[#rosters + 1] = roster
  if #rosters > 16 then
    local old = table.remove(rosters, 1)
    call('HDEL', key, old .. ':map', old .. ':rules', old .. ':free')
  end
  known[1], known[2] = isOrdered and '=' .. #map or pack(map), false
  call('HSET', key, roster .. ':map', known[1], roster .. ':rules', pack(rules), 'windows', pack(windows),
    'rosters', pack(rosters))
end

local map, total
if byte(known[1]) == 61 then
  total = string.sub(known[1], 2) + 0
else
  map = unpack(known[1])
  total = #map
end

local free, of
if known[2] and not fresh then
  of, free = unpack(known[2])
end
if of ~= slot then
  free = {}
  for _, rule in ipairs(rules or column(roster .. ':rules')) do
    local sums, maxima = column(rule[1] .. ':sum'), rule[4]
    for place = 1, total do
      local max = maxima[place]
      if max >= 0 then
        local left, known_ = max - (sums[map and map[place] or place] or 0), free[place]
        if not known_ or left < known_ then free[place] = left end
      end
    end
  end
  call('HSET', key, roster .. ':free', pack(slot) .. pack(free))
end

if not taken then taken = {} end
for index = #taken + 1, count do taken[index] = 0 end
local wants, granted, any, time = { byte(ARGV[5], 1, -1) }, {}, false, floor(micros / 1000)
local news, changed = {}, false
for place = 1, total do
  local at = 3 * place
  local want = wants[at - 2] * 16384 + wants[at - 1] * 128 + wants[at]
  local index = map and map[place] or place
  local block = closed and closed[index]
  if block and block[2] == 0 and time >= block[1] then
    closed[index], block, changed = nil, nil, true
  end
  if block then
    local isOver = time >= block[1]
    local probes = kind == 'p' and isOver and time >= block[3]
    want = probes and want > 0 and 1 or 0
    local at_ = #news
    news[at_ + 1], news[at_ + 2], news[at_ + 3] = place, block[1], isOver and 1 or 0
  elseif kind == 'p' then
    want = 0
  end
  if slot < coldUntil then want = 0 end
  if want > 0 then
    local had = taken[index]
    local left = free[place] - had
    if left < want then want = left > 0 and left or 0 end
    if want > 0 then
      taken[index], any = had + want, true
      if block then block[3], changed = time + ARGV[7], true end
    end
  end
  granted[place] = want
end
if changed and next(closed) then
  call('HSET', key, 'blocks', pack(closed))
elseif changed then
  call('HDEL', key, 'blocks')
end
if any then call('HSET', key, 'taken', pack(taken)) end
call('HSET', key, 'head', pack({ last, ahead, slot, count, born, coldUntil }))
if fresh or rules then
  -- Counted tokens outlive every window, and a block its end by a day.
  local keep = 0
  for _, window in ipairs(column('windows')) do keep = math.max(keep, 2 * window[1] + 60000) end
  for _, block in pairs(closed or {}) do keep = math.max(keep, block[1] - time + 86400000) end
  call('PEXPIRE', key, keep)
end
return pack((slot + 1) * slotMicros - last, granted, news)
