-- The accounts of one pool, called by several processes. Time is cut into slots; a token is good for one call within its
-- slot. Where no run of slots that a window can touch holds more tokens than its maximum, no window has more calls.
-- Numbers of all accounts are columns (decision 0007): a field holds one number of each account, by its place in `names`.
-- Arguments and answers name an account by its index in the roster of the asking process, from 1 on.
--
-- KEYS[1]  the pool, a hash:
--   h        incarnation, birth and last instant by the server's clock (ms), slot, number of the last verdict, of the last
--            results, accounts, lead of the fleet's time over that clock; of each member that lead, as it has known it for
--            some seconds, and since when; the instant of the last question of a judge
--   names    the accounts by place
--   p<id>    a roster: accounts, places (absent: 1, 2, 3 …), concurrency, and of each window its length with margin, width,
--            run, and maxima (-1: none); what is equal for all accounts is one number
--   rosters  the ids of rosters, oldest first
--   taken    tokens of the slot at hand
--   w        windows: length, width, run, and the wide slot at hand
--   <l>s     tokens of the run of the window of length l, without the slot at hand; <l>:<n> of one of its wide slots
--   busy     calls under way and tokens in hand, of all members; m<id> those of one member
--   members  of each member: its last word and its last demand, by the server's clock
--   v        verdicts: of each account place, number, end of its block, end of its cool-down (0: closed), end and member
--            of the probe's mark, concurrency (0: no bound), learned share and the instant from which it rises, and the
--            length of its cool-down in ms as a text ('' where a block is all that is known)
--   r<n>     results that a member reported
--   total, covered, filled, unused   of accounts with long windows: tokens granted since the fill, those that the record
--            covers, 1 where their use on record was read, and those of total that were taken back within a second of
--            their slot
--
-- ARGV[7]  JSON: d width of a slot, m member, k how long a silent member's calls count, o roster id, O roster or nil,
--          n birth that this member knows, v, s number of the last verdict and of the last results that it knows,
--          r results or nil, f 1 for uses, u verdicts of the judge {index, openUntil, concurrency, share, since, cool-down},
--          z those that a process remembers of a state that was lost, t those that no judge has told,
--          j 1 if the member is a judge, b blocks {index, until}, w how long nothing is granted after a birth at least,
--          p how long a probe is waited for, ms, x accounts whose probes were not made, y those whose probes are under way,
--          c {index, covered}, F fills {index, instant, count, …},
--          q of each account: index, want, calls under way and tokens in hand; e of those in q that have more to tell: number
--          in q, share of the places that are kept, calls to count in this slot, tokens to take back {slot, count, …} or 0
-- returns  '?' where the roster is to be given; else JSON: slot, server's clock, birth, verdict and result numbers, V verdicts,
--          R results, U uses, T long windows; and of each account of q: 262,144 times busy, and 16 times its tokens, and 8 for a
--          probe, and the reason why there are no more. Numbers of Redis cost a tenth of those of JSON.
local given = cjson.decode(ARGV[7])
local width, member = given.d, given.m
local packed, decode = cmsgpack.pack, cmsgpack.unpack
-- Slots follow the server's own clock: by that of the fleet each process would know it to some milliseconds only.
local tick = now
if ARGV[2] == '' then
  local time = call('TIME')
  tick = floor(time[1] * 1000 + time[2] / 1000)
end
local head = call('HGET', key, 'h')
head = head and decode(head)
-- A clock that was set leaves nothing known of the time of tokens. Two processes know it to some milliseconds, and it may
-- drift; for one process it changes within some seconds by little more than windows are kept longer.
local offset = ARGV[2] == '' and ARGV[3] + 0 or 0
local lead = head and head[9] and head[9][member]
local isSet = head and math.abs(offset - head[8]) > 100 or lead and math.abs(offset - lead[1]) > 25
if head and (head[1] ~= incarnation or isSet) then head = nil end
if not given.O and (not head or call('HEXISTS', key, 'p' .. given.o) == 0) then return '?' end
if not head then
  call('UNLINK', key)
  head, lead = { incarnation, tick, tick, floor(tick / width), 0, 0, 0, offset, {} }, nil
end
-- A clock that steps back by less than the prologue notices stands still here.
if tick < head[3] then tick = head[3] end
head[3], head[8], head[9] = tick, offset, head[9] or {}
if not lead or tick - lead[2] > 10000 then head[9][member] = { offset, tick } end

-- Columns are read once and written at the end where they were changed.
local columns, dirty = {}, {}
local function column(field)
  local found = columns[field]
  if not found then
    local text = call('HGET', key, field)
    found = text and decode(text) or {}
    columns[field] = found
  end
  return found
end
local function add(field, place, count)
  local values = column(field)
  -- A column has no gaps: they would make a map of it.
  for gap = #values + 1, place do values[gap] = 0 end
  values[place] = values[place] + count
  if values[place] < 0 then values[place] = 0 end
  dirty[field] = true
end
-- A column with a number of each account.
local function whole(field)
  local values = column(field)
  for gap = #values + 1, head[7] do values[gap] = 0 end
  return values
end
local function replace(field, value)
  columns[field] = value
  dirty[field] = true
end

local windows, slot = column('w'), floor(tick / width)
if slot > head[4] then
  local taken = column('taken')
  for _, window in ipairs(windows) do
    local length, wide, run, at = window[1], window[2], window[3], window[4]
    local to, sums = floor(slot / wide), length .. 's'
    if next(taken) then
      local field = length .. ':' .. at % run
      local counts, totals = whole(field), whole(sums)
      for place = 1, #taken do
        local count = taken[place]
        counts[place] = counts[place] + count
        totals[place] = totals[place] + count
      end
      dirty[field], dirty[sums] = true, true
    end
    for leaving = max(at, to - run) + 1, to do
      local field = length .. ':' .. leaving % run
      local counts, totals = column(field), whole(sums)
      for place = 1, #counts do totals[place] = max(0, totals[place] - counts[place]) end
      dirty[sums] = true
      if next(column(field)) then call('HDEL', key, field) end
      columns[field], dirty[field] = nil, nil
    end
    window[4] = to
  end
  if next(taken) then replace('taken', {}) end
  dirty.w = true
  head[4] = slot
end
