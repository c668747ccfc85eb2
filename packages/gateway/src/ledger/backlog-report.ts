/**
 * Answers questions about the backlog from its counters: groups by reason, channel, tenant, category, account or
 * limit, with the instant at which each is gone. A booked instant is exact to the second. What is due and waits for
 * an account is gone by an estimate, from the accounts' rates. Pure: the caller passes the time.
 */
import type {
  BacklogCell,
  BacklogFilter,
  BacklogGroup,
  BacklogQuery,
  BacklogReport,
  DeadGroup,
  Span,
} from '../backlog-cell.ts'
import { departureMinutes, dueReason, groupsMax, secondOf, spans } from '../backlog-cell.ts'
import type { Channel } from '../model.ts'

/** The counted notifications of one cell. */
export interface Counted {
  readonly cell: BacklogCell
  count: number
  /** Counters by second, in groups of an hour, so that a question walks hours and only two of them by seconds. */
  readonly hours: Map<number, HourCount>
  /** One of them, as long as it stays: the newest that came. */
  example?: string | undefined
  detail?: string | undefined
}

export interface HourCount {
  count: number
  readonly seconds: Map<number, number>
}

export const hourSeconds = 3_600

/** Reasons whose instant depends on others, so that it is an estimate. */
const estimated: ReadonlySet<string> = new Set(['tenant_limit', 'module_limit', 'provider_capacity'])

interface Sum {
  readonly key: string
  count: number
  /** Notifications that are due, by channel. */
  readonly due: Map<Channel, number>
  oldestDue: number
  next: number
  last: number
  isEstimate: boolean
  readonly leaving: Record<Span, number>
}

export function backlogReport(cells: Iterable<Counted>, query: BacklogQuery): BacklogReport {
  const { by, now } = query
  const nowSecond = Math.floor(now / 1_000)
  const sums = new Map<string, Sum>()
  const departures = new Array<number>(departureMinutes).fill(0)

  function sumOf(key: string): Sum {
    let sum = sums.get(key)
    if (sum === undefined) {
      sum = sumOfNone(key)
      sums.set(key, sum)
    }
    return sum
  }

  /** The group in which a cell counts for this reason; undefined where the query asks for another reason. */
  function groupFor(cell: BacklogCell, reason: string): Sum | undefined {
    if (query.reason !== undefined && reason !== query.reason) return undefined
    return sumOf(by === 'reason' ? reason : (cell[by] ?? 'none'))
  }

  for (const counted of matching(cells, query)) {
    const { cell } = counted
    const reason = cell.reason ?? 'none'
    const isAsked = query.reason === undefined || query.reason === reason
    const { due, waiting } = sumOfCell(counted, nowSecond, isAsked ? departures : undefined)
    const dueIn = Number.isFinite(due.first) ? groupFor(cell, dueReason(cell)) : undefined
    if (dueIn !== undefined) {
      dueIn.count += due.count
      dueIn.due.set(cell.channel, (dueIn.due.get(cell.channel) ?? 0) + due.count)
      dueIn.oldestDue = Math.min(dueIn.oldestDue, due.first)
      dueIn.leaving['1m'] += due.count
    }
    const waitsIn = Number.isFinite(waiting.first) ? groupFor(cell, reason) : undefined
    if (waitsIn === undefined) continue
    waitsIn.count += waiting.count
    waitsIn.isEstimate ||= estimated.has(reason)
    waitsIn.next = Math.min(waitsIn.next, waiting.first)
    waitsIn.last = Math.max(waitsIn.last, waiting.last)
    for (const span of spanNames) waitsIn.leaving[span] += waiting.leaving[span]
  }
  const inOrder = [...sums.values()].sort((a, b) => b.count - a.count)
  const shown = inOrder.length <= groupsMax ? inOrder : inOrder.slice(0, groupsMax - 1)
  const rest = inOrder.slice(shown.length)
  const groups = rest.length === 0 ? shown : [...shown, rest.reduce(joined, sumOfNone('other'))]
  return { groups: groups.map((sum) => groupOf(sum, query)), departures }
}

function* matching(cells: Iterable<Counted>, { tenant, channel }: BacklogFilter): Iterable<Counted> {
  for (const counted of cells) {
    const { cell } = counted
    if (cell.kind === 'dead') continue
    if (tenant !== undefined && cell.tenant !== tenant) continue
    if (channel !== undefined && cell.channel !== channel) continue
    yield counted
  }
}

/** The notifications of a cell at one instant: what is due, and what waits for an instant to come. */
interface CellSum {
  readonly due: { readonly count: number; readonly first: number }
  readonly waiting: {
    readonly count: number
    readonly first: number
    readonly last: number
    readonly leaving: Readonly<Record<Span, number>>
  }
}

/**
 * Sums a cell by its hours. Only the hours of the coming day are walked by seconds, for `departures`, and of the others
 * the earliest and the latest: what waits for longer costs nothing, however many different seconds it has.
 */
function sumOfCell({ cell, hours }: Counted, nowSecond: number, departures?: number[]): CellSum {
  const dueUntil = cell.kind === 'queued' ? Number.POSITIVE_INFINITY : dueSecondOf(cell, nowSecond)
  const leaving = noneLeaving()
  let [due, waiting] = [0, 0]
  let firstDue = Number.POSITIVE_INFINITY
  let [first, last] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]
  /** The earliest hour that is due as a whole, and the earliest and the latest of which nothing is due. */
  let dueHour = Number.POSITIVE_INFINITY
  let [firstHour, lastHour] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]
  for (const [hour, { count, seconds }] of hours) {
    const from = hour * hourSeconds
    const to = from + hourSeconds - 1
    if (to <= dueUntil) {
      due += count
      dueHour = Math.min(dueHour, hour)
      continue
    }
    if (from > dueUntil) {
      waiting += count
      firstHour = Math.min(firstHour, hour)
      lastHour = Math.max(lastHour, hour)
      const span = spanOf(from - nowSecond)
      if (span === spanOf(to - nowSecond)) leaving[span] += count
      else for (const [second, each] of seconds) leaving[spanOf(second - nowSecond)] += each
    } else {
      for (const [second, each] of seconds) {
        if (second <= dueUntil) {
          due += each
          firstDue = Math.min(firstDue, second)
          continue
        }
        waiting += each
        first = Math.min(first, second)
        last = Math.max(last, second)
        leaving[spanOf(second - nowSecond)] += each
      }
    }
    if (departures !== undefined && to >= nowSecond && from < nowSecond + departureMinutes * 60)
      addDepartures(departures, seconds, Math.max(nowSecond, dueUntil + 1), nowSecond)
  }
  const ends = (hour: number): Iterable<number> => hours.get(hour)?.seconds.keys() ?? []
  return {
    due: { count: due, first: Math.min(firstDue, ...ends(dueHour)) },
    waiting: {
      count: waiting,
      first: Math.min(first, ...ends(firstHour)),
      last: Math.max(last, ...ends(lastHour)),
      leaving,
    },
  }
}

/** The last second that is due; a digest is closed, and never due. */
const dueSecondOf = ({ reason }: BacklogCell, nowSecond: number): number =>
  reason === 'digest' ? Number.NEGATIVE_INFINITY : nowSecond

/** Adds the seconds that are not before `first` to their minutes from now on. */
function addDepartures(
  departures: number[],
  seconds: ReadonlyMap<number, number>,
  first: number,
  nowSecond: number,
): void {
  for (const [second, count] of seconds) {
    if (second < first) continue
    const minute = Math.floor((second - nowSecond) / 60)
    if (minute < departureMinutes) departures[minute]! += count
  }
}

const spanNames = [...(Object.keys(spans) as (keyof typeof spans)[]), 'later'] as const
const noneLeaving = (): Record<Span, number> => ({ '1m': 0, '10m': 0, '1h': 0, '1d': 0, later: 0 })

const sumOfNone = (key: string): Sum => ({
  key,
  count: 0,
  due: new Map(),
  oldestDue: Number.POSITIVE_INFINITY,
  next: Number.POSITIVE_INFINITY,
  last: Number.NEGATIVE_INFINITY,
  isEstimate: false,
  leaving: noneLeaving(),
})

function joined(sum: Sum, other: Sum): Sum {
  sum.count += other.count
  for (const [channel, count] of other.due) sum.due.set(channel, (sum.due.get(channel) ?? 0) + count)
  sum.oldestDue = Math.min(sum.oldestDue, other.oldestDue)
  sum.next = Math.min(sum.next, other.next)
  sum.last = Math.max(sum.last, other.last)
  sum.isEstimate ||= other.isEstimate
  for (const span of spanNames) sum.leaving[span] += other.leaving[span]
  return sum
}

function spanOf(inSeconds: number): Span {
  for (const span of spanNames) if (span !== 'later' && inSeconds <= spans[span]) return span
  return 'later'
}

function groupOf(sum: Sum, { now, capacityOf }: BacklogQuery): BacklogGroup {
  let emptyAt: number | null = sum.last === Number.NEGATIVE_INFINITY ? now : sum.last * 1_000
  let isEstimate = sum.isEstimate
  for (const [channel, count] of sum.due) {
    isEstimate = true
    const capacity = capacityOf(channel)
    if (capacity === undefined || capacity.perSecond <= 0) emptyAt = null
    else if (emptyAt !== null) {
      const gone = Math.max(now, capacity.from) + (count / capacity.perSecond) * 1_000
      emptyAt = Math.max(emptyAt, secondOf(gone) * 1_000)
    }
  }
  const instant = (second: number): number | null => (Number.isFinite(second) ? second * 1_000 : null)
  return {
    key: sum.key,
    count: sum.count,
    oldestDueAt: instant(sum.oldestDue),
    nextAt: instant(sum.next),
    lastAt: instant(sum.last),
    emptyAt,
    emptyIs: emptyAt === null ? 'never' : isEstimate ? 'estimate' : 'booked',
    leaving: sum.leaving,
  }
}

/** Groups the dead letters, the largest group first, at most `groupsMax`. */
export function deadLetterGroups(cells: Iterable<Counted>, filter: BacklogFilter): readonly DeadGroup[] {
  const groups = new Map<string, DeadGroup>()
  for (const { cell, count, hours, example, detail } of cells) {
    if (cell.kind !== 'dead' || count <= 0) continue
    if (filter.tenant !== undefined && cell.tenant !== filter.tenant) continue
    if (filter.channel !== undefined && cell.channel !== filter.channel) continue
    const { reason: cause = 'none', channel, provider, account } = cell
    const key = [cause, channel, provider, account].join('\n')
    const known = groups.get(key)
    const oldestAt = Math.min(known?.oldestAt ?? Number.POSITIVE_INFINITY, oldestOf(hours))
    const shown = known?.example ?? example
    const answer = known?.answer ?? detail
    groups.set(key, {
      cause,
      channel,
      ...(provider === undefined ? {} : { provider }),
      ...(account === undefined ? {} : { account }),
      count: (known?.count ?? 0) + count,
      oldestAt,
      ...(shown === undefined ? {} : { example: shown }),
      ...(answer === undefined ? {} : { answer }),
    })
  }
  return [...groups.values()].sort((a, b) => b.count - a.count).slice(0, groupsMax)
}

/** The earliest second of a cell, ms: only the earliest hour is walked. */
function oldestOf(hours: Counted['hours']): number {
  let first = Number.POSITIVE_INFINITY
  for (const hour of hours.keys()) first = Math.min(first, hour)
  let second = first * hourSeconds
  const seconds = hours.get(first)?.seconds.keys()
  if (seconds !== undefined) second = Math.min(...seconds)
  return second * 1_000
}
