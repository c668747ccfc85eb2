/**
 * Counts what waits, and the dead letters, as the ledger moves them: by cell (tenant, channel, category, reason,
 * limit, account) and by the second in which each is due. A change costs two additions, a question reads counters
 * and never the store. Memory: one counter for each second of a cell that has any, so at most one for each waiting
 * notification, whose number the bounds of the tenants bound.
 */
import {
  type BacklogCell,
  type BacklogReports,
  type BacklogRow,
  type BacklogTotals,
  backlogRowOf,
  dueReason,
  spans,
} from '../backlog-cell.ts'
import type { Notification, Status } from '../model.ts'
import {
  backlogReport,
  type Counted,
  deadLetterGroups,
  type HourCount,
  hourSeconds,
} from './backlog-report.ts'

export interface Backlog extends BacklogReports {
  /** Counts a notification as it stands on record; `by` is -1 for the state that it leaves. */
  count(notification: Notification, by: 1 | -1): void
  /** Sums for the metrics. */
  totals(now: number): BacklogTotals
  /** The number of notifications on record in each state; absent where the ledger counts every change itself. */
  statuses?(): Readonly<Record<Status, number>>
}

/** `rows`: what is on record at the start. */
export function createBacklog(rows: readonly BacklogRow[] = []): Backlog {
  const cells = new Map<string, Counted>()

  function add(row: Omit<BacklogRow, 'count'>, by: number): void {
    const key = keyOf(row)
    let counted = cells.get(key)
    if (counted === undefined) {
      const { second: _, example: _id, detail: _said, ...cell } = row
      counted = { cell, count: 0, hours: new Map() }
      cells.set(key, counted)
    }
    counted.count += by
    addSecond(counted.hours, row.second, by)
    if (by > 0) {
      counted.example = row.example
      counted.detail = row.detail
    } else if (counted.example === row.example) counted.example = undefined
    if (counted.count === 0 && counted.hours.size === 0) cells.delete(key)
  }

  for (const { count, ...row } of rows) add(row, count)

  return {
    count(notification, by) {
      const row = backlogRowOf(notification)
      if (row !== undefined) add(row, by)
    },
    totals: (now) => backlogTotals(cells.values(), now),
    report: (query) => backlogReport(cells.values(), query),
    deadLetters: (filter) => deadLetterGroups(cells.values(), filter),
  }
}

function addSecond(hours: Map<number, HourCount>, second: number, by: number): void {
  const at = Math.floor(second / hourSeconds)
  let hour = hours.get(at)
  if (hour === undefined) {
    hour = { count: 0, seconds: new Map() }
    hours.set(at, hour)
  }
  hour.count += by
  const after = (hour.seconds.get(second) ?? 0) + by
  if (after === 0) hour.seconds.delete(second)
  else hour.seconds.set(second, after)
  if (hour.seconds.size === 0) hours.delete(at)
}

function keyOf({ tenant, channel, category, kind, reason, limit, provider, account }: BacklogCell): string {
  return `${tenant}\n${channel}\n${category}\n${kind}\n${reason ?? ''}\n${limit ?? ''}\n${provider ?? ''}\n${account ?? ''}`
}

/**
 * Sums the backlog for the metrics: what waits by channel and reason, dead letters by channel and cause, and what is
 * due within some time. It walks the cells and their hours, and the seconds of one hour only, since every scrape asks.
 */
function backlogTotals(cells: Iterable<Counted>, now: number): BacklogTotals {
  const nowSecond = Math.floor(now / 1_000)
  const waiting = new Map<string, number>()
  const dead = new Map<string, number>()
  const dueWithin = Object.fromEntries(Object.keys(spans).map((name) => [name, 0])) as Record<
    keyof typeof spans,
    number
  >
  for (const { cell, count, hours } of cells) {
    const { kind, channel } = cell
    const reason = kind === 'queued' ? dueReason(cell) : (cell.reason ?? 'none')
    const sums = kind === 'dead' ? dead : waiting
    const key = `${channel} ${reason}`
    sums.set(key, (sums.get(key) ?? 0) + count)
    if (kind !== 'waiting') continue
    for (const [at, hour] of hours)
      for (const [name, seconds] of Object.entries(spans))
        dueWithin[name as keyof typeof spans] += countUntil(at, hour, nowSecond + seconds)
  }
  return { waiting: split(waiting), dead: split(dead), dueWithin }
}

/** Counts what an hour has up to a second. */
function countUntil(at: number, { count, seconds }: HourCount, until: number): number {
  const first = at * hourSeconds
  if (until >= first + hourSeconds - 1) return count
  if (until < first) return 0
  let sum = 0
  for (const [second, each] of seconds) if (second <= until) sum += each
  return sum
}

const split = (sums: ReadonlyMap<string, number>): BacklogTotals['waiting'] =>
  [...sums].map(([key, count]) => {
    const [channel, reason] = key.split(' ') as [string, string]
    return { channel, reason, count }
  })
