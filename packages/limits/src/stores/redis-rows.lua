-- The end of the general way: what came of the question is written and answered. The caller makes the rows of a short
-- state itself (see redis-reply.ts). A long one stays here, and its rows are made by the same rules as in
-- stores/general-path.ts. Its answer is an 'r' and, in JSON without brackets: now, the instant, what was done, flags
-- (1 known before, 2 and counted then, 4 booked, 8 moved), the rule that decided (0 none), the end of a block (0 none);
-- of each rule used, remaining, available, reserved, freesAt, resetAt, admits; the ids that were evicted.
if not wasLong then
  if writes then
    if entry then putBack(entry) end
    if id then setEntry(id, entry) end
    writeState()
  end
  return 'g' .. now6 .. pack('>I7', at) .. done .. told
end

-- The first rule that refuses just before the instant and admits at it: givesWayAt of rolling-window.ts.
local function decider()
  for index, rule in ipairs(rules) do
    local log, places, window = logs[rule.stream], rule.max - weight + 1, rule.window
    if places < 1 then
      if at >= never then return index end
    elseif at < never and freeAt(rule, at) == at then
      local first = countUntil(log, at - window - 1)
      if first + places <= log.n then
        local head = instant(log, first + 1)
        if head + window == at and instant(log, first + places) - head < window then return index end
      end
    end
  end
  return 0
end

local deciding = 0
if refuser then
  for index = #rules, 1, -1 do if rules[index].refuse and not admits[index] then deciding = index end end
elseif at > (repeated and now or firstAt) then
  deciding = decider()
end
local counted = entry and entry.fired and entry.at <= now
if counted then putBack(entry) end
local parts, everything = {}, {}

-- How many more a rule admits now: roomAt of rolling-window.ts.
local function roomNow(log, rule)
  local past = countUntil(log, now)
  local fullest, at = past - countUntil(log, now - rule.window), past + 1
  while at <= log.n do
    local t = instant(log, at)
    if t >= now + rule.window then break end
    local last = countUntil(log, t)
    fullest = math.max(fullest, last - countUntil(log, t - rule.window))
    at = last + 1
  end
  return math.max(0, rule.written - fullest)
end

for index, rule in ipairs(rules) do
  local lane = seats[rule.stream]
  local fired, waiting = lane.fired, lane.booked
  local gone, past = countUntil(fired, now - rule.window), countUntil(fired, now)
  everything[lane] = everything[lane] or merged(lane)
  parts[index] = string.format(',%d,%d,%d,%d,%d,%d,%d', used[index], math.max(0, rule.written - past + gone),
    roomNow(everything[lane], rule), waiting.n - countUntil(waiting, now - rule.window) + fired.n - past,
    freeIn(everything[lane], rule, 1, now), gone < past and instant(fired, gone + 1) + rule.window or now,
    admits[index] and 1 or 0)
end
if entry and not counted then putBack(entry) end
for _, name in ipairs(evicted) do parts[#parts + 1] = ',' .. cjson.encode(name) end
if id then setEntry(id, entry) end
local flags = (repeated and 1 or 0) + (repeated and own.fired and 2 or 0) + (booked and 4 or 0)
  + (countsNow and own and own.fired and 8 or 0)
if writes then writeState() end
return string.format('r%d,%d,%d,%d,%d,%d', now, at, done, flags, deciding, blockedUntil) .. table.concat(parts)
end)()
