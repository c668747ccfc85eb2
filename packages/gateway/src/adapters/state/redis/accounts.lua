-- The question to the accounts of one pool, behind account-columns.lua, which describes the value, its arguments and its answer.
-- A window that is new, as in a rolling deployment, begins with the calls of the shortest window that is as long, or of the
-- longest: else the account would be called as if it had not been called before.
local function begin(window)
  local from
  for _, each in ipairs(windows) do
    local isLonger = from and from[1] < window[1] and each[1] > from[1]
    local isCloser = from and each[1] >= window[1] and each[1] < from[1]
    if not from or isLonger or isCloser then from = each end
  end
  if not from then return end
  for cell = from[4] - from[3] + 1, from[4] do
    local at = min(window[4], floor(((cell + 1) * from[2] - 1) / window[2]))
    if window[4] - at < window[3] then
      for place, count in ipairs(column(from[1] .. ':' .. cell % from[3])) do
        if count > 0 then
          add(window[1] .. ':' .. at % window[3], place, count)
          add(window[1] .. 's', place, count)
        end
      end
    end
  end
end

local roster
if given.O then
  local names, known, places, isInOrder = column('names'), {}, {}, true
  for place, name in ipairs(names) do known[name] = place end
  for index, name in ipairs(given.O.names) do
    if not known[name] then
      names[#names + 1] = name
      known[name] = #names
      dirty.names = true
    end
    places[index] = known[name]
    isInOrder = isInOrder and places[index] == index
  end
  roster = { count = #places, concurrency = given.O.concurrency, rules = given.O.rules }
  if not isInOrder then roster.places = places end
  head[7] = #names
  for _, rule in ipairs(roster.rules) do
    local isKnown = false
    for _, window in ipairs(windows) do isKnown = isKnown or window[1] == rule[1] end
    if not isKnown then
      local window = { rule[1], rule[2], rule[3], floor(slot / rule[2]) }
      begin(window)
      windows[#windows + 1] = window
      dirty.w = true
    end
  end
  local rosters = column('rosters')
  local isNamed = false
  for _, id in ipairs(rosters) do isNamed = isNamed or id == given.o end
  if not isNamed then
    rosters[#rosters + 1] = given.o
    dirty.rosters = true
    -- Rosters of processes that are gone; one that is asked for again is given again.
    if #rosters > 16 then call('HDEL', key, 'p' .. table.remove(rosters, 1)) end
  end
  replace('p' .. given.o, roster)
else
  roster = column('p' .. given.o)
end
local rules = roster.rules
local function placeOf(index) return roster.places and roster.places[index] or index end
local function numberOf(values, index) return type(values) == 'number' and values or values[index] end

-- Members: those that were silent for too long are dead or stopped, and their calls have ended.
local members, wanting = column('members'), false
for index = 1, #given.q, 3 do wanting = wanting or given.q[index + 1] > 0 end
local own, askers, isNew, silent = 'm' .. member, 0, true, {}
for index = #members, 1, -1 do
  local each = members[index]
  if each[1] == member then
    isNew, each[2] = false, tick
    if wanting then each[3] = tick end
  elseif each[2] + given.k < tick then
    for place, count in ipairs(column('m' .. each[1])) do
      if count > 0 then add('busy', place, -count) end
    end
    columns['m' .. each[1]], dirty['m' .. each[1]], head[9][each[1]] = nil, nil, nil
    call('HDEL', key, 'm' .. each[1])
    table.remove(members, index)
  elseif tick - each[2] >= 500 then
    silent[#silent + 1] = each
  end
  if each[3] > tick - 5 * width then askers = askers + 1 end
end
if isNew then
  members[#members + 1] = { member, tick, wanting and tick or 0 }
  if wanting then askers = askers + 1 end
end
dirty.members = true

-- Verdicts.
local verdicts, verdictOf = column('v'), {}
for _, each in ipairs(verdicts) do verdictOf[each[1]] = each end
local function judged(place)
  local verdict = verdictOf[place]
  if not verdict then
    verdict = { place, 0, 0, 0, 0, '', 0, 1, 0, '' }
    verdictOf[place] = verdict
    verdicts[#verdicts + 1] = verdict
  end
  head[5] = head[5] + 1
  verdict[2] = head[5]
  dirty.v = true
  return verdict
end
for _, block in ipairs(given.b or {}) do
  local place = placeOf(block[1])
  local known = verdictOf[place]
  if block[2] > now and (not known or known[3] < block[2]) then judged(place)[3] = block[2] end
end
local function judge(each)
  local verdict = judged(placeOf(each[1]))
  if verdict[4] ~= each[2] then verdict[5], verdict[6] = 0, '' end
  verdict[4], verdict[7], verdict[8], verdict[9], verdict[10] = each[2], each[3], each[4], each[5], each[6]
end
for _, each in ipairs(given.u or {}) do judge(each) end
for _, each in ipairs(given.z or {}) do
  local verdict = verdictOf[placeOf(each[1])]
  -- No judge has spoken since the state was lost: a block alone has no detail. Else the verdict is told once more, for who
  -- has read an older record believes what it says until then.
  local isToTell = each[2] > 0 or each[3] > 0 or each[4] < 1
  if isToTell and (not verdict or verdict[10] == '') then judge(each) else judged(placeOf(each[1])) end
end
-- While no judge asks, as where it was killed some seconds ago, the results speak by whoever has heard them.
if given.j then head[10] = tick end
local isJudged = tick < (head[10] or 0) + 1000
for _, each in ipairs(given.t or {}) do
  local verdict = verdictOf[placeOf(each[1])]
  local isOpen = verdict ~= nil and verdict[4] > 0
  if not isJudged and isOpen ~= (each[2] > 0) then judge(each) end
end
for _, index in ipairs(given.x or {}) do
  local verdict = verdictOf[placeOf(index)]
  if verdict and verdict[6] == member then
    judged(placeOf(index))
    verdict[5], verdict[6] = 0, ''
  end
end
-- A state that was lost, or a verdict, has forgotten their marks.
for _, index in ipairs(given.y or {}) do
  local verdict = verdictOf[placeOf(index)]
  if verdict and verdict[4] > 0 and verdict[5] <= now then
    judged(placeOf(index))
    verdict[5], verdict[6] = now + given.p, member
  end
end

-- Long windows: nothing is granted before the use on record is counted.
for _, fill in ipairs(given.F or {}) do
  local place = placeOf(fill[1])
  if (column('filled')[place] or 0) == 0 then
    for index = 2, #fill, 2 do
      for _, window in ipairs(windows) do
        local at = floor(floor((tick - max(0, now - fill[index])) / width) / window[2])
        if window[4] - at < window[3] then
          add(window[1] .. ':' .. at % window[3], place, fill[index + 1])
          add(window[1] .. 's', place, fill[index + 1])
        end
      end
    end
    add('filled', place, 1)
  end
end
for _, each in ipairs(given.c or {}) do
  local place = placeOf(each[1])
  local more = each[2] - (column('covered')[place] or 0)
  if more > 0 and (column('filled')[place] or 0) > 0 then add('covered', place, more) end
end

-- Takes tokens of an earlier slot back: they were not used, or count in a later slot.
local function takeBack(place, from, count)
  if from == slot then return add('taken', place, -count) end
  for _, window in ipairs(windows) do
    local at = floor(from / window[2])
    if window[4] - at < window[3] then
      local field = window[1] .. ':' .. at % window[3]
      local back = min(count, column(field)[place] or 0)
      if back > 0 then
        add(field, place, -back)
        add(window[1] .. 's', place, -back)
      end
    end
  end
end

-- At least one place may be used, but never the last that is kept.
local function usable(most, share, kept)
  if share == 1 and kept == 0 then return most end
  local places_ = max(1, floor(most * share))
  if kept == 0 then return places_ end
  return max(1, places_ - max(1, floor(places_ * kept)))
end

-- Tokens that may be granted; behind them why there are no more: 1 not now, 2 windows, 3 calls under way, 4 the record. An
-- answer may say 5 besides: this member got its share of what is left, for others ask, too.
local sumsOf, taken, busyOf, ownOf = {}, whole('taken'), whole('busy'), whole(own)
-- Most accounts have short windows only, and no verdict.
local hasLong, warmAt = false, given.w
for each, rule in ipairs(rules) do
  sumsOf[each] = whole(rule[1] .. 's')
  hasLong = hasLong or rule[2] > 1
  warmAt = max(warmAt, rule[1] + 3 * width)
  -- A member that died may have written its calls behind the slot that counts them. When that slot has left the window they
  -- count for so long as a call may be late (counted-lease.ts).
  for _, other in ipairs(silent) do
    local over = tick - other[2] - rule[1]
    if over >= 0 and over < min(250, rule[1] / 4) + 2 * width then
      local sums = {}
      for place, count in ipairs(sumsOf[each]) do sums[place] = count + (column('m' .. other[1])[place] or 0) end
      sumsOf[each] = sums
    end
  end
end
local isPlain = not hasLong and tick >= head[2] + warmAt
local function free(index, place, kept)
  local verdict = verdictOf[place]
  local share, isProbe, concurrency = 1, false, numberOf(roster.concurrency, index)
  if verdict then
    if now < verdict[3] then return 0, 1 end
    if verdict[4] > 0 then
      if now < max(verdict[4], verdict[5]) then return 0, 1 end
      isProbe = true
    end
    share = verdict[8]
    -- It rises as in learned-rate.ts.
    if share < 1 then share = min(1, share + max(0, now - verdict[9]) / 1000 * 0.01) end
    if verdict[7] > 0 then concurrency = min(concurrency, verdict[7]) end
  end
  local left, reason, coldMs = usable(concurrency, 1, kept) - (busyOf[place] or 0), 3, given.w
  local isLong = false
  for each, rule in ipairs(rules) do
    local most = numberOf(rule[4], index)
    if most >= 0 then
      if rule[2] == 1 then
        coldMs = max(coldMs, rule[1] + 3 * width)
      else
        isLong = true
        local covered = (column('covered')[place] or 0) - (column('total')[place] or 0)
        if covered < left then left, reason = covered, 4 end
      end
      local places_ = most == 0 and 0 or usable(most, share, kept)
      places_ = places_ - (sumsOf[each][place] or 0) - (taken[place] or 0)
      if places_ < left then left, reason = places_, 2 end
    end
  end
  if tick < head[2] + coldMs then return 0, 1 end
  if isProbe then left = min(left, 1) end
  return max(0, left), reason, isProbe, isLong
end

local answers, q, more, moreAt, ceil = {}, given.q, given.e or {}, {}, math.ceil
local places, bounds, oneBound, maxima = roster.places, roster.concurrency, tonumber(roster.concurrency), {}
for each, rule in ipairs(rules) do maxima[each] = type(rule[4]) == 'table' and rule[4] end
local hasMore, isGranted, isTold, ruleCount = #more > 0, false, false, #rules
local firstMost, firstSums = rules[1] and not maxima[1] and rules[1][4], sumsOf[1]
for at = 1, #more, 4 do moreAt[more[at]] = at end
for at = 1, #q, 3 do
  local index, want, busy, kept = q[at], q[at + 1], q[at + 2], 0
  local place = places and places[index] or index
  local told = hasMore and moreAt[(at + 2) / 3]
  if told then
    local late, back = more[told + 2], more[told + 3]
    kept = more[told + 1]
    -- Tokens of a state that was lost were never counted here.
    local unused = -late
    for each = 1, back ~= 0 and given.n == head[2] and #back or 0, 2 do
      takeBack(place, back[each], back[each + 1])
      if (slot - back[each]) * width <= 1000 then unused = unused + back[each + 1] end
    end
    -- What was late has left its slot and counts in this one.
    if hasLong and unused > 0 then add('unused', place, unused) end
    taken[place] = taken[place] + late
    dirty.taken = true
  end
  local before = ownOf[place]
  if busy ~= before then
    local under = busyOf[place] + busy - before
    busyOf[place], ownOf[place], isTold = under < 0 and 0 or under, busy, true
  end
  local granted, reason, isProbe, isLong = 0, 0, false, false
  if want > 0 then
    local left
    if isPlain and kept == 0 and not verdictOf[place] then
      left, reason = (oneBound or bounds[index]) - busyOf[place], 3
      if ruleCount == 1 and firstMost then
        local places_ = firstMost - firstSums[place] - taken[place]
        if places_ < left then left, reason = places_, 2 end
      else
        for each = 1, ruleCount do
          local most = maxima[each] and maxima[each][index] or rules[each][4]
          local places_ = most - sumsOf[each][place] - taken[place]
          if most >= 0 and places_ < left then left, reason = places_, 2 end
        end
      end
      if left < 0 then left = 0 end
    else
      left, reason, isProbe, isLong = free(index, place, kept)
    end
    -- While others ask too, nobody takes all.
    local share = left
    if askers > 1 then share = left > 0 and ceil(2 * left / askers) or 1 end
    granted = want
    if left < granted then granted = left end
    if share < granted then granted = share end
    if granted == want then reason = 0 elseif granted == share and granted < left then reason = 5 end
  end
  if granted > 0 then
    taken[place], busyOf[place], ownOf[place] = taken[place] + granted, busyOf[place] + granted, ownOf[place] + granted
    isGranted = true
    if isLong then add('total', place, granted) end
    if isProbe then
      local verdict = judged(place)
      verdict[5], verdict[6] = now + given.p, member
    end
  end
  answers[(at + 2) / 3] = 262144 * busyOf[place] + 16 * granted + (isProbe and 8 or 0) + reason
end

if isTold or isGranted then dirty.busy, dirty[own] = true, true end
if isGranted then dirty.taken = true end

-- Results are kept for those that have not heard of them, 256 batches.
if given.r then
  head[6] = head[6] + 1
  call('HSET', key, 'r' .. head[6] % 256, given.r)
end
local results, index = {}, {}
-- Numbers of a state that was lost say nothing of this one.
local heard = given.n == head[2] and given.s <= head[6] and given.s or 0
for serial = max(heard, head[6] - 256) + 1, head[6] do
  results[#results + 1] = call('HGET', key, 'r' .. serial % 256) or '[]'
end
for position = 1, roster.count do index[placeOf(position)] = position end
local news = {}
if given.v < head[5] then
  for _, each in ipairs(verdicts) do
    if each[2] > given.v and index[each[1]] then
      news[#news + 1] = { index[each[1]], each[3], each[4], each[5], each[7], each[10] }
    end
  end
end

local uses, long = {}, {}
if given.f then
  for each, rule in ipairs(rules) do
    local sums, row = sumsOf[each], {}
    for position = 1, roster.count do
      local place, most = placeOf(position), numberOf(rule[4], position)
      row[position] = most < 0 and 0 or (sums[place] or 0) + (taken[place] or 0)
      if rule[2] > 1 and most >= 0 then long[position] = true end
    end
    uses[#uses + 1] = row
  end
  local rows = {}
  for position in pairs(long) do
    local place = placeOf(position)
    local row = { position }
    for _, field in ipairs({ 'total', 'covered', 'filled', 'unused' }) do row[#row + 1] = column(field)[place] or 0 end
    rows[#rows + 1] = row
  end
  long = rows
end

replace('h', head)
local written = {}
for field in pairs(dirty) do
  local at = #written
  written[at + 1], written[at + 2] = field, packed(columns[field])
end
call('HSET', key, _G.unpack(written))
local keepMs = 86400000
for _, window in ipairs(windows) do keepMs = max(keepMs, 2 * window[1]) end
call('PEXPIRE', key, keepMs)
return { cjson.encode({ slot, tick, head[2], head[5], head[6], isNew and 1 or 0, news, results, uses, long }), answers }
