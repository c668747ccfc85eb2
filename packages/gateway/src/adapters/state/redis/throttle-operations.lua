-- The operations of the throttle queues: the answers of ports/tenants.ts, made of throttle-queue.lua.
-- Stands for the turn of an entry that has left.
local gone = 0

-- Remembers a turn, so that it may be repeated, with the processes that were given it; or that an entry is gone.
local function rememberTurn(module, id, t, owners)
  local order, field = call('HGET', key, 'D'), 'd' .. module.number .. ':' .. id
  local turned = order and cmsgpack.unpack(order) or {}
  for index = #turned, 1, -1 do
    if turned[index][2] == field then table.remove(turned, index) end
  end
  turned[#turned + 1] = { now, field }
  while turned[1][1] < now - repeatedMs or #turned > repeatedMax do
    call('HDEL', key, turned[1][2])
    table.remove(turned, 1)
  end
  call('HSET', key, field, pack('>I6', t) .. (owners or ''), 'D', cmsgpack.pack(turned))
end

-- Forgets a turn that is put back.
local function forgetTurn(module, id)
  local field = 'd' .. module.number .. ':' .. id
  local turned = cmsgpack.unpack(call('HGET', key, 'D'))
  for index = #turned, 1, -1 do
    if turned[index][2] == field then table.remove(turned, index) end
  end
  call('HDEL', key, field)
  call('HSET', key, 'D', cmsgpack.pack(turned))
end

local function turnedOf(module, id)
  local packed = module and call('HGET', key, 'd' .. module.number .. ':' .. id)
  if packed then return (unpack('>I6', packed)), string.sub(packed, 7) end
end

-- True if a turn was put back by this process, and others have it.
local function isOthers(module, id)
  local turnedAt, owners = turnedOf(module, id)
  return turnedAt and turnedAt ~= gone and owners ~= '' and not string.find(owners, own, 1, true)
end

local function keepOwners(module, id, t, owners)
  call('HSET', key, 'd' .. module.number .. ':' .. id, pack('>I6', t) .. owners)
end

-- Answers 1 and the place of an entry that passes, or 0 and the place for which it waits.
local function turn(name, id)
  local module = moduleOf(name, true)
  local arrival, _, rank = entryOf(module, id)
  if not arrival then
    local turnedAt, owners = turnedOf(module, id)
    if turnedAt == gone then
      -- A process that does not know yet that the entry has ended: in a queue it would take a place from all others.
      local t, waits = placeOf(module, now)
      if waits == 1 then return 0, max(t, now + 1) end
    elseif turnedAt then
      if not string.find(owners, own, 1, true) then keepOwners(module, id, turnedAt, owners .. own) end
      return 1, turnedAt
    end
    -- An entry that nothing is known of counts now if it is admitted; else it stands before all others.
    if earliest(module, now) == now then
      put(module, now)
      rememberTurn(module, id, now, own)
      return 1, now
    end
    local t = placeOf(module, now)
    put(module, t)
    arrival = firstArrival(module)
    insert(module.places, t)
    rank = 1
    stand(module, id, arrival, at(module.places, 1))
  end
  local t = at(module.places, rank)
  if t > now then
    -- Its turn is taken of what the record says: nobody takes it back any more.
    setEntry(module, id, arrival, t)
    return 0, t
  end
  removeAt(module.places, rank)
  stepOut(module, id, arrival)
  rememberTurn(module, id, t, own)
  return 1, t
end

-- The arrival number of an entry that is put back, where its place stands: so all others keep theirs.
local function arrivalAt(module, t)
  local rank = countUntil(module.places, t)
  if rank == module.ids.length then return nextArrival() end
  if rank == 0 then return firstArrival(module) end
  local before = at(module.ids, rank)
  local between = floor((before + at(module.ids, rank + 1)) / 2)
  return between > before and between or nil
end

-- Puts a remembered turn back when all who were given it have: another one may be writing it, and it counts then. Once:
-- a second one would put back an instant that counts no more, and would uncount the entry of another. Without a gap left
-- among the arrivals the turn stays as it is, to be repeated.
local function putBack(name, id, t)
  local module = moduleOf(name)
  local turnedAt, owners = turnedOf(module, id)
  if turnedAt ~= t or entryOf(module, id) then return end
  local from, to = string.find(owners, own, 1, true)
  if from then owners = string.sub(owners, 1, from - 1) .. string.sub(owners, to + 1) end
  if owners ~= '' then return keepOwners(module, id, t, owners) end
  local arrival = arrivalAt(module, t)
  if not arrival then return end
  forgetTurn(module, id)
  stand(module, id, arrival, t)
  insert(module.places, t)
end

local function leave(name, id, isCounted)
  local module = moduleOf(name)
  local arrival, _, rank = entryOf(module, id)
  if not arrival then return end
  -- A place that has come goes with its entry: whoever got it would pass now and count then. All close up.
  local hasCome = at(module.places, rank) <= now
  local freed = removeAt(module.places, (hasCome or isCounted) and rank or module.places.length)
  if not isCounted then take(module, freed) end
  stepOut(module, id, arrival)
  if isCounted then return end
  if hasCome then left = min(left, freed) else moveUp(freed) end
end

-- Takes an entry back, unless another process has decided it too, or it is on record.
local function release(name, id)
  local module = moduleOf(name)
  local arrival, due, _, owners = entryOf(module, id)
  if not arrival then return end
  local from, to = string.find(owners, own, 1, true)
  if not from then return end
  local others = string.sub(owners, 1, from - 1) .. string.sub(owners, to + 1)
  if others == '' then leave(name, id, false) else setEntry(module, id, arrival, due, others) end
end

local function uncount(name, t)
  local module = moduleOf(name)
  if module and take(module, t) then left = min(left, t) end
end

local function rowsOf(rows, windows, list, from)
  for _, window in ipairs(windows) do
    local before = countUntil(list, now - window[2])
    local used = countUntil(list, now) - before
    rows[#rows + 1] = used
    rows[#rows + 1] = used == 0 and now or at(list, before + 1) + window[2]
    rows[#rows + 1] = freeAt(list, window[1], window[2], from)
  end
end

local function useOf(name)
  local module, rows = moduleOf(name) or noModule, {}
  local last = module.places.length > 0 and at(module.places, module.places.length) or now
  rowsOf(rows, tenantWindows, listOf('t'), freeForTenant(now))
  rowsOf(rows, moduleWindows, module.log, max(now, last))
  return rows
end

local function entryAt(module, rank)
  local id = idOf(module, at(module.ids, rank))
  local arrival, due, _, owners = entryOf(module, id)
  return id, arrival, at(module.places, rank), due, owners
end

-- The next instant at which an entry is to be promoted; 0 where there is none: see promotions.ts.
local function nextPromotion()
  local nextAt = never
  for _, number in ipairs(head.waiting) do
    local module = moduleAt(number)
    local come = countUntil(module.places, now)
    for rank = max(1, come - comeMax + 1), min(come + 1, module.places.length) do
      local _, _, place, due = entryAt(module, rank)
      if place < due then
        nextAt = min(nextAt, place)
      elseif place == due then
        if place + absentMs > now then nextAt = min(nextAt, place + absentMs) end
      elseif place > now then
        nextAt = min(nextAt, due > now and due or place)
      end
    end
  end
  return nextAt == never and 0 or nextAt
end

-- Takes the entries whose place has come before their due time on record, each once; or all whose place has come: some of
-- them were taken by a question whose answer was lost.
local function takePromoted(all)
  local ids = {}
  for _, number in ipairs(head.waiting) do
    local module, rank = moduleAt(number), 1
    while rank <= module.ids.length and at(module.places, rank) <= now do
      local id, arrival, place, due, owners = entryAt(module, rank)
      if place < due then setEntry(module, id, arrival, place, owners) end
      if place < due or all then ids[#ids + 1] = id end
      rank = rank + 1
    end
  end
  return ids
end

-- Takes over one part of what throttle-fill.ts has prepared: counted instants, and entries with their places. The value
-- is unknown until the last part: its head stands aside.
local function fill()
  local filled = call('HGET', key, 'f')
  if filled then
    head = headOf(cmsgpack.unpack(filled))
  else
    head = { generation = given.g, keptMs = max(keptMs, given.k), newest = 0, segment = 0, arrival = 4294967296,
      module = 0, waiting = {}, rules = rulesOf(), part = 0 }
    forgetSpan()
  end
  -- A part whose answer was lost is asked again; what a server has lost of the parts before makes the fill void.
  if given.p ~= head.part then return end
  for _, each in ipairs(given.counted) do put(moduleOf(each[1], true), each[2]) end
  for _, entry in ipairs(given.waiting) do
    local module, place = moduleOf(entry[2], true), entry[4]
    stand(module, entry[1], nextArrival(), entry[3])
    put(module, place)
    insert(module.places, place)
  end
  if given.e == 1 then
    call('HDEL', key, 'r', 'c', 'f')
    head.since, head.till = given.s[1], given.s[2]
    save()
  else
    head.part = head.part + 1
    saveLists()
    call('HSET', key, 'f', packedHead())
  end
end

if operation == 'fill' or operation == 'keep' then
  -- The record of a claim that was lost since, or has lapsed, may lack what has counted behind it.
  if call('HGET', key, 'c') ~= token then return { 'late' } end
  -- A long record takes longer to read, and to be written, than a claim lasts.
  call('HSET', key, 'r', now + fillMs)
  call('PEXPIRE', key, fillMs)
  if operation == 'fill' then fill() end
  return { 'ok' }
end

if not load() then
  local filling = call('HGET', key, 'r')
  if filling and filling + 0 > now and filling + 0 <= now + fillMs then return { '?', 0 } end
  -- Nothing is left of the value: the store refuses its generation from the fill on, also one that never comes.
  call('UNLINK', key)
  call('HSET', key, 'r', now + fillMs, 'c', token)
  call('PEXPIRE', key, fillMs)
  return { '?', 1 }
end

-- Keeps the span that a question has found which changes nothing else: or each would search all that waits again.
local foundSince, foundTill = head.since, head.till
local function saveSpan()
  if head.since ~= foundSince or head.till ~= foundTill then call('HSET', key, 'h', packedHead()) end
end

local generation = head.generation
if operation == 'pass' then
  local places, use = {}, false
  for _, request in ipairs(given.r) do
    local id, name, expiresAt, isCritical = request[1], request[2], request[3], request[4]
    local t, waits, isTenant = now, 0, 1
    if isCritical == 1 then
      put(moduleOf(name, true), now)
    else
      if not use then
        local _, wouldWait = placeOf(moduleOf(name) or noModule, now)
        if wouldWait == 1 then use = useOf(name) end
      end
      t, waits, isTenant = join(name, id, expiresAt >= 0 and expiresAt)
    end
    places[#places + 1], places[#places + 2], places[#places + 3] = t, waits, isTenant
  end
  save()
  return { 'ok', generation, places, use }
elseif operation == 'preview' then
  local t, waits, isTenant = placeOf(moduleOf(given.n) or noModule, now)
  local use = useOf(given.n)
  saveSpan()
  return { 'ok', generation, { t, waits, isTenant }, use }
elseif operation == 'use' then
  local use = useOf(given.n)
  saveSpan()
  return { 'ok', generation, use }
elseif operation == 'place' then
  local module = moduleOf(given.n)
  local _, _, rank = entryOf(module, given.i)
  return { 'ok', generation, rank and at(module.places, rank) or -1 }
end

local answer = {}
if operation == 'turn' then
  for _, request in ipairs(given.r) do
    local passed, t = turn(request[2], request[1])
    answer[#answer + 1], answer[#answer + 2] = passed, t
  end
elseif operation == 'back' then
  -- The entry of a turn of an earlier generation was restored or counted by the fill.
  for _, request in ipairs(given.r) do
    if not request[4] or request[4] == generation then putBack(request[2], request[1], request[3]) end
  end
elseif operation == 'leave' then
  for _, request in ipairs(given.r) do
    leave(request[2], request[1], request[3] == 1)
    local module = moduleOf(request[2], true)
    -- Others that were given its turn put it back yet.
    if not isOthers(module, request[1]) then rememberTurn(module, request[1], gone) end
  end
elseif operation == 'take back' then
  -- Places of another generation are gone, and what was counted there may be an entry of somebody else.
  for _, request in ipairs(given.r) do
    if request[5] == generation then
      if request[4] == 1 then release(request[2], request[1]) else uncount(request[2], request[3]) end
    end
  end
elseif operation == 'promoted' then
  answer = takePromoted(given.a == 1)
end
closeUp()
save()
return { 'ok', generation, answer, nextPromotion() }
