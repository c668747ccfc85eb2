/** Lines of the log that follow the record and the time, and not a request. */
import type { BacklogTotals } from '../backlog-cell.ts'
import type { Clock, HoldRecord } from '../ports.ts'
import type { ComplaintChange } from '../reports.ts'
import type { Log } from './log-events.ts'
import type { DiskUse } from './metrics.ts'

// ---- the complaint guard
//
// Lines of the log about the complaint guard: each when a category slows, pauses or goes on, and at a start.

export interface ComplaintLogOptions {
  readonly log: Pick<Log, 'warn' | 'info'>
  /** The lead of the wall clock over the gateway's own time, ms. */
  readonly aheadMs: () => number
}

export function createComplaintLog({ log, aheadMs }: ComplaintLogOptions): (change: ComplaintChange) => void {
  return ({ before, now: { stage, tenant, category, delivered, complained, bound, share, until } }) => {
    const fields = { tenant, category, delivered, complained, bound }
    if (stage === 'paused')
      log.warn({
        event: 'complaints.paused',
        ...fields,
        ...(until === undefined ? {} : { outUntil: new Date(until + aheadMs()) }),
      })
    else if (before === 'paused') log.info({ event: 'complaints.resumed', ...fields, share })
    else if (stage === 'slowed') log.warn({ event: 'complaints.slowed', ...fields, share })
    else log.info({ event: 'complaints.over', ...fields })
  }
}

// ---- holds of operators
//
// Lines of the log about holds of operators: each when it is put in force, also at a start, and when it ends.

export interface HoldLogOptions {
  readonly log: Pick<Log, 'warn' | 'info'>
  /** The lead of the wall clock over the gateway's own time, ms. */
  readonly aheadMs: () => number
}

export function createHoldLog({ log, aheadMs }: HoldLogOptions) {
  return ({ kind, hold }: { readonly kind: 'put' | 'ended'; readonly hold: HoldRecord }): void => {
    const { name, account, tenant, channel, category, reason, until } = hold
    const fields = account === undefined ? { name, tenant, channel, category } : { channel, account }
    const of = account === undefined ? 'notifications' : 'account'
    if (kind === 'ended') log.info({ event: `${of}.released`, ...fields })
    else log.warn({ event: `${of}.held`, ...fields, reason, outUntil: new Date(until + aheadMs()) })
  }
}

// ---- lines that are due by time
//
// Lines that are due by time and not by an event: dead letters that wait, and a disk that is nearly full.

export interface WatchOptions {
  readonly log: Log
  readonly clock: Pick<Clock, 'now' | 'at'>
  readonly deadLetters: () => BacklogTotals['dead']
  readonly disk: () => DiskUse | undefined
}

const everyMs = 60_000
/** The disk is low below both: 5 GiB, and a tenth of the whole. */
const lowBytes = 5 * 2 ** 30
const lowShare = 0.1

/** Starts to watch; the returned function stops it. */
export function watch({ log, clock, deadLetters, disk }: WatchOptions): () => void {
  let isLow = false

  function look(): void {
    disarm = clock.at(clock.now() + everyMs, look)
    const counts: Record<string, Record<string, number>> = {}
    for (const { channel, reason, count } of deadLetters())
      if (count > 0) counts[channel] = { ...counts[channel], [reason]: count }
    if (Object.keys(counts).length > 0) log.info({ event: 'dead_letters.summary', counts })
    const use = disk()
    if (use === undefined) return
    const { freeBytes, totalBytes } = use
    const low = freeBytes < lowBytes && freeBytes < totalBytes * lowShare
    if (low !== isLow) log[low ? 'warn' : 'info']({ event: 'store.disk_low', low, freeBytes })
    isLow = low
  }

  let disarm = clock.at(clock.now() + everyMs, look)
  return () => disarm()
}
