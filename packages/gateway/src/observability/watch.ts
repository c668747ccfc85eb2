/** Lines that are due by time and not by an event: dead letters that wait, and a disk that is nearly full. */
import type { BacklogTotals } from '../backlog-cell.ts'
import type { Clock } from '../ports.ts'
import type { Log } from './log-events.ts'
import type { DiskUse } from './metrics.ts'

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
