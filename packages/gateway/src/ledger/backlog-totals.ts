/**
 * Sums the backlog for the metrics: what waits by channel and reason, dead letters by channel and cause, and what is
 * due within some time. It walks the cells and their hours, and the seconds of one hour only, since every scrape asks.
 */
import type { BacklogTotals } from '../backlog-cell.ts'
import { dueReason, spans } from '../backlog-cell.ts'
import { type Counted, type HourCount, hourSeconds } from './backlog-report.ts'

export function backlogTotals(cells: Iterable<Counted>, now: number): BacklogTotals {
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
