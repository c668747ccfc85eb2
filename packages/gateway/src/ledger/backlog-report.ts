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
import { departureMinutes, groupsMax, secondOf, spans } from '../backlog-cell.ts'
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

  function addTo(cell: BacklogCell, second: number, count: number): void {
    const isDue = cell.kind === 'queued' || (second <= nowSecond && cell.reason !== 'digest')
    const reason = isDue ? 'provider_capacity' : (cell.reason ?? 'none')
    if (query.reason !== undefined && reason !== query.reason) return
    const sum = sumOf(by === 'reason' ? reason : (cell[by] ?? 'none'))
    sum.count += count
    if (isDue) {
      sum.due.set(cell.channel, (sum.due.get(cell.channel) ?? 0) + count)
      sum.oldestDue = Math.min(sum.oldestDue, second)
      sum.leaving['1m'] += count
      return
    }
    sum.isEstimate ||= estimated.has(reason)
    sum.next = Math.min(sum.next, second)
    sum.last = Math.max(sum.last, second)
    sum.leaving[spanOf(second - nowSecond)] += count
    const minute = Math.floor((second - nowSecond) / 60)
    if (minute >= 0 && minute < departureMinutes) departures[minute]! += count
  }

  for (const { cell, hours } of matching(cells, query)) {
    for (const { seconds } of hours.values())
      for (const [second, count] of seconds) addTo(cell, second, count)
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

const sumOfNone = (key: string): Sum => ({
  key,
  count: 0,
  due: new Map(),
  oldestDue: Number.POSITIVE_INFINITY,
  next: Number.POSITIVE_INFINITY,
  last: Number.NEGATIVE_INFINITY,
  isEstimate: false,
  leaving: { '1m': 0, '10m': 0, '1h': 0, '1d': 0, later: 0 },
})

function joined(sum: Sum, other: Sum): Sum {
  sum.count += other.count
  for (const [channel, count] of other.due) sum.due.set(channel, (sum.due.get(channel) ?? 0) + count)
  sum.oldestDue = Math.min(sum.oldestDue, other.oldestDue)
  sum.next = Math.min(sum.next, other.next)
  sum.last = Math.max(sum.last, other.last)
  sum.isEstimate ||= other.isEstimate
  for (const span of Object.keys(sum.leaving) as Span[]) sum.leaving[span] += other.leaving[span]
  return sum
}

function spanOf(inSeconds: number): Span {
  for (const [span, seconds] of Object.entries(spans)) if (inSeconds <= seconds) return span as Span
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
