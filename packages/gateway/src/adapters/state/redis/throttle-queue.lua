-- The throttle queues of one tenant and its modules, as throttle-queue.ts keeps them in memory: the same answers to the
-- same operations. KEYS[1] is a hash that is lost, moved and expires as a whole:
--
--   h           head: incarnation, generation, for how long instants are kept, the span without a free instant for the
--               tenant, the newest instant, counters, numbers of the modules in whose queue entries wait, the windows
--               under which it was filled, and those under which the span was found
--   m<name>     the number of a module
--   t, l<n>     sorted lists: instants of passed and waiting entries of the tenant, and of the module n
--   a<n>, p<n>  sorted lists: arrival numbers of the waiting entries of the module n, and their places: the k-th entry
--               has the k-th place
--   i<n>:<id>   arrival number, and the due time on record, of a waiting entry, and the processes that may yet take it
--               back, each with a space behind it; none of an entry that is known to be on record
--   n<n>:<a>    the id of the entry with the arrival number a
--   d<n>:<id>   place of an entry that had its turn within the last seconds, and the processes that were given it, each with
--               a space behind it; D their order
--   r, c, f     until when a caller fills this value, the token of its claim, and the head of the parts that are filled
--
-- ARGV[7]  JSON: t, m windows of the tenant and of each module as [max, ms], ms with the margin; o the process that
--          decides a notification or takes it back; a 1 of a process that has started, or looks after what others
--          have left: under other windows than its own the places are to be filled anew; what else the operation needs
-- ARGV[8]  a token that no other claim has; of a fill the token of the claim that it fills, or keeps
-- ARGV[9]  the least generation that the record accepts, as the caller knows it; not of a fill
-- returns  'clock'; {'late'} of a fill whose claim is no more; {'?', 1 where the caller is to fill the value}; else
--          {'ok', generation, …}
local given, token, leastGeneration = cjson.decode(ARGV[7]), ARGV[8], (ARGV[9] or 0) + 0
local tenantWindows, moduleWindows, own = given.t, given.m, (given.o or '') .. ' '
-- An entry of nobody, whose acceptance failed or whose process died, is dropped so long behind its place, ms.
local abandonedMs = 3600000
-- So long, and so many of them, a turn is answered once more as it was: its answer may have been lost, and a process that
-- was killed with it is found dead after 12 s.
local repeatedMs, repeatedMax = 20000, 500
-- More moves are left to the next operation: no entry is ever moved to a later place.
local movesMax = 256
-- See throttle-queue.ts and promotions.ts.
local closedUpMax, comeMax, absentMs = 100, 8, 100
local fillMs, idleMs, arrivalGap = 2000, 86400000, 1024

local keptMs = 0
for _, windows in ipairs({ tenantWindows, moduleWindows }) do
  for _, window in ipairs(windows) do keptMs = max(keptMs, window[2]) end
end

-- Encoded where they are compared or kept: a tenant below its limits needs neither.
local function rulesOf() return cjson.encode({ tenantWindows, moduleWindows }) end

local function headOf(h)
  return { generation = h[2], keptMs = h[3], since = h[4], till = h[5], newest = h[6], segment = h[7], arrival = h[8],
    module = h[9], waiting = h[10], rules = h[11], part = h[12] }
end

local function packedHead()
  return cmsgpack.pack({ incarnation, head.generation, head.keptMs, head.since, head.till, head.newest, head.segment,
    head.arrival, head.module, head.waiting, head.rules, head.part,
    head.till > now and rulesOf() })
end

local function load()
  local packed = call('HGET', key, 'h')
  if not packed then return end
  local h = cmsgpack.unpack(packed)
  -- Windows that have become wider count instants that were forgotten: unknown, too.
  if h[1] ~= incarnation or h[2] < leastGeneration or h[3] < keptMs then return end
  if given.a == 1 and h[11] ~= rulesOf() then return end
  head = headOf(h)
  -- Other windows have other free instants: a rate that was raised would wait for a window of the earlier one.
  if head.till > now and h[13] ~= rulesOf() then head.since, head.till = never, -1 end
  return true
end

local function save()
  saveLists()
  call('HSET', key, 'h', packedHead())
  call('PEXPIRE', key, floor(max(idleMs, min(head.newest - now, 400 * idleMs) + 2 * head.keptMs + idleMs)))
end

local modules = {}
local function moduleAt(number)
  local module = modules[number]
  if not module then
    module = { number = number, log = listOf('l' .. number), ids = listOf('a' .. number), places = listOf('p' .. number) }
    modules[number] = module
  end
  return module
end

-- Modules without a counted entry are forgotten, each time that so many more have come.
local function forgetModules()
  for _, field in ipairs(call('HKEYS', key)) do
    if string.sub(field, 1, 1) == 'm' then
      local module = moduleAt(call('HGET', key, field) + 0)
      forget(module.log, now - head.keptMs)
      if module.log.length == 0 then call('HDEL', key, field) end
    end
  end
end

local noModule = { log = { segments = {}, length = 0 }, places = { segments = {}, length = 0 } }
local function moduleOf(name, create)
  local number = call('HGET', key, 'm' .. name)
  if number then return moduleAt(number + 0) end
  if not create then return end
  head.module = head.module + 1
  if head.module % 1000 == 0 then forgetModules() end
  call('HSET', key, 'm' .. name, head.module)
  return moduleAt(head.module)
end

local function forgetSpan() head.since, head.till = never, -1 end

-- The earliest instant >= from at which a window admits one more; see freeAt in @sluice/limits.
local function freeAt(list, count, ms, from)
  if count < 1 then return never end
  if list.length < count then return from end
  local t, first = from, countUntil(list, from - ms) + 1
  while first + count - 1 <= list.length do
    local last = at(list, first + count - 1)
    if last - ms >= t then break end
    local oldest = at(list, first)
    if last - oldest < ms then t = oldest + ms end
    first = first + 1
  end
  return min(t, never)
end

local function freeUnder(windows, list, from)
  local t, agreed, index = from, 0, 0
  while agreed < #windows and t < never do
    local window = windows[index % #windows + 1]
    local next = freeAt(list, window[1], window[2], t)
    agreed = next == t and agreed + 1 or 1
    t, index = next, index + 1
  end
  return t
end

local function freeForModule(module, from) return freeUnder(moduleWindows, module.log, from) end

-- No instant from head.since to head.till is free for the tenant: the search begins behind it.
local function freeForTenant(from)
  local known = from >= head.since and from <= head.till
  local t = freeUnder(tenantWindows, listOf('t'), known and head.till or from)
  if known then
    head.till = t
  elseif head.till == -1 or from < head.since then
    head.since, head.till = from, t
  end
  return t
end

local function earliest(module, from)
  local t = from
  while true do
    local tried = t
    t = freeForTenant(freeForModule(module, t))
    if t == tried or t == never then return t end
  end
end

-- Answers the place of a new entry: the instant, 1 where it waits, 1 where the limit of the tenant is the reason.
local function placeOf(module, from)
  local last = module.places.length > 0 and at(module.places, module.places.length)
  local start = max(from, last or from)
  local t = earliest(module, start)
  local waits = t > from or last
  local isTenant = waits and (freeForTenant(from) >= t or freeForModule(module, start) < t)
  return t, waits and 1 or 0, isTenant and 1 or 0
end

local function put(module, t)
  insert(module.log, t)
  insert(listOf('t'), t)
  if t > head.newest and t < never then head.newest = t end
end

local function take(module, t)
  if not remove(module.log, t) then return false end
  remove(listOf('t'), t)
  -- Only instants less than a window from it may be free now.
  head.till = min(head.till, t - head.keptMs)
  if head.till < head.since then forgetSpan() end
  return true
end

local function entryOf(module, id)
  local packed = module and call('HGET', key, 'i' .. module.number .. ':' .. id)
  if not packed then return end
  local arrival, due = unpack('>I6I6', packed)
  return arrival, due, countUntil(module.ids, arrival), string.sub(packed, 13)
end

local function setEntry(module, id, arrival, due, owners)
  call('HSET', key, 'i' .. module.number .. ':' .. id, pack('>I6I6', arrival, due) .. (owners or ''))
end

local function stand(module, id, arrival, due, owners)
  if module.ids.length == 0 then table.insert(head.waiting, module.number) end
  insert(module.ids, arrival)
  setEntry(module, id, arrival, due, owners)
  call('HSET', key, 'n' .. module.number .. ':' .. arrival, id)
end

local function stepOut(module, id, arrival)
  remove(module.ids, arrival)
  call('HDEL', key, 'i' .. module.number .. ':' .. id, 'n' .. module.number .. ':' .. arrival)
  if module.ids.length > 0 then return end
  for index, number in ipairs(head.waiting) do
    if number == module.number then table.remove(head.waiting, index) break end
  end
end

-- Arrival numbers have gaps, in which an entry is put back.
local function nextArrival()
  head.arrival = head.arrival + arrivalGap
  return head.arrival
end

-- An arrival number before all others.
local function firstArrival(module)
  return module.ids.length > 0 and at(module.ids, 1) - arrivalGap or nextArrival()
end

local function idOf(module, arrival) return call('HGET', key, 'n' .. module.number .. ':' .. arrival) end

local function dropAbandoned(module)
  for _ = 1, 16 do
    if module.places.length == 0 or at(module.places, 1) > now - abandonedMs then return end
    local arrival = at(module.ids, 1)
    removeAt(module.places, 1)
    stepOut(module, idOf(module, arrival), arrival)
  end
end

local function join(name, id, expiresAt)
  -- A span in the past concerns no new entry.
  if head.till < now and head.since < now then forgetSpan() end
  forget(listOf('t'), now - head.keptMs)
  local module = moduleOf(name, true)
  forget(module.log, now - head.keptMs)
  dropAbandoned(module)
  local arrival, due, rank, owners = entryOf(module, id)
  if rank then
    -- Another process decides the same notification, or has decided it: each takes back only for itself. The place may be
    -- later than at the first time, and either may be what comes on record.
    local t = at(module.places, rank)
    if owners ~= '' and not string.find(owners, own, 1, true) then owners = owners .. own end
    setEntry(module, id, arrival, max(due, min(t, expiresAt or never)), owners)
    return t, 1, 0
  end
  local t, waits, isTenant = placeOf(module, now)
  put(module, t)
  if waits == 1 then
    stand(module, id, nextArrival(), min(t, expiresAt or never), own)
    insert(module.places, t)
  end
  return t, waits, isTenant
end

-- The earliest instant for the last entry of a module if its place were free.
local function withoutLast(module, from)
  local last, since, till = at(module.places, module.places.length), head.since, head.till
  take(module, last)
  local t = earliest(module, from)
  put(module, last)
  head.since, head.till = since, till
  return t
end

-- Moves later places forward, now that `freed` is free: see moveUp in throttle-queue.ts.
local function moveUp(freed)
  local from = freed
  for _ = 1, movesMax do
    local opened = max(now, from - head.keptMs)
    local gaining, gained, earliestArrival
    for _, number in ipairs(head.waiting) do
      local module = moduleAt(number)
      local last = at(module.places, module.places.length)
      if last > opened then
        local t = withoutLast(module, opened)
        if t < last then
          local arrival = at(module.ids, countUntil(module.places, t) + 1)
          if not gaining or arrival < earliestArrival then gaining, gained, earliestArrival = module, t, arrival end
        end
      end
    end
    if not gaining then return end
    local last = removeAt(gaining.places, gaining.places.length)
    take(gaining, last)
    insert(gaining.places, gained)
    put(gaining, gained)
    from = min(from, last)
  end
end

-- Places all again whose places are still to come: see throttle-queue.ts.
local function placeAgain()
  local all, order = {}, {}
  for _, number in ipairs(head.waiting) do
    local module = moduleAt(number)
    local before, come = {}, countUntil(module.places, now)
    for rank = 1, module.places.length do
      before[rank] = at(module.places, rank)
      if rank > come then
        order[#order + 1] = { module = module, at = before[rank], arrival = at(module.ids, rank) }
      end
    end
    all[#all + 1] = { module = module, before = before, come = come }
  end
  local function takeBack()
    for _, of in ipairs(all) do
      local places = of.module.places
      while places.length > of.come do take(of.module, removeAt(places, places.length)) end
    end
  end
  local function place(module, t)
    put(module, t)
    insert(module.places, t)
  end
  takeBack()
  table.sort(order, function(a, b) return a.at < b.at or a.at == b.at and a.arrival < b.arrival end)
  for _, entry in ipairs(order) do place(entry.module, (placeOf(entry.module, now))) end
  local isLater = false
  for _, of in ipairs(all) do
    for rank, old in ipairs(of.before) do isLater = isLater or at(of.module.places, rank) > old end
  end
  if not isLater then return end
  takeBack()
  for _, entry in ipairs(order) do place(entry.module, entry.at) end
end

-- The least of the places that had come and are free, behind which all close up at the end of the operation.
local left = never
local function closeUp()
  if left == never then return end
  local size, freed = 0, left
  left = never
  for _, number in ipairs(head.waiting) do size = size + moduleAt(number).places.length end
  if size > 0 and size <= closedUpMax then placeAgain() end
  moveUp(freed)
end
