/**
 * Prepares the fill of a tenant's throttle queues from the record: it gives every waiting entry its place, as a queue in
 * memory does (../throttle/throttle-queue.ts), so that Redis has nothing to search, and cuts the rows into parts. Redis
 * answers nobody else during a script, and 5 s are the bound behind which it answers `BUSY`. With 20,000 entries one script
 * with all of them took 2 s of its CPU, and a part takes 7 ms (decision record 0031, Measured, has the command).
 */
import { type RestoredEntry, type ThrottleLimits, ThrottleQueue } from '../throttle/throttle-queue.ts'
import { freeUnder } from '../throttle/windows.ts'

/** An entry on record that counts for the limits of its tenant and module. */
interface CountedEntry {
  readonly module: string
  /** The instant at which it counts, epoch ms. */
  readonly at: number
  readonly isCritical: boolean
}

export interface ThrottleEntries {
  readonly counted: readonly CountedEntry[]
  readonly waiting: readonly RestoredEntry[]
}

/** Rows of the script's operation `fill`. Instants are epoch ms; `Infinity` where nothing is ever free. */
export interface FillPart {
  /** Entries that have passed: module, instant. */
  readonly counted: readonly (readonly [module: string, at: number])[]
  /** Entries that wait, in the order of arrival: id, module, due time on record, and the place of its rank in its module. */
  readonly waiting: readonly (readonly [id: string, module: string, dueAt: number, place: number])[]
  /**
   * Has only the last part: no instant from the first of these up to the second is free for the tenant. Without it the first
   * question after the fill searches all that waits: 60 ms of the CPU of Redis with 20,000 (decision record 0031, Measured).
   */
  readonly full?: readonly [since: number, until: number]
}

/** Rows of one part. */
const rowsMax = 200

/** Makes the parts of a fill, at least one; what has passed stands before what waits, each in its order. */
export function fillParts(entries: ThrottleEntries, limits: ThrottleLimits, now: number): FillPart[] {
  const counted = entries.counted.toSorted((a, b) => a.at - b.at)
  const queue = new ThrottleQueue(limits)
  for (const { module, at, isCritical } of counted) if (!isCritical) queue.count(module, at)
  queue.restore(
    entries.waiting,
    counted.filter(({ isCritical }) => isCritical),
    now,
  )
  const ranks = new Map<string, number>()
  const waiting = entries.waiting.map(({ id, module, dueAt }) => {
    const rank = ranks.get(module) ?? 0
    ranks.set(module, rank + 1)
    return [id, module, dueAt, queue.placesOf(module)[rank]!] as const
  })
  const rows = Math.max(1, counted.length + waiting.length)
  const log = [...counted.map(({ at }) => at), ...waiting.map(([, , , place]) => place)].sort((a, b) => a - b)
  const full = [now, freeUnder(limits.tenant, limits.marginMs, log, now)] as const
  const parts: FillPart[] = []
  for (let row = 0; row < rows; row += rowsMax)
    parts.push({
      counted: counted.slice(row, row + rowsMax).map(({ module, at }) => [module, at] as const),
      waiting: waiting.slice(Math.max(0, row - counted.length), Math.max(0, row + rowsMax - counted.length)),
      ...(row + rowsMax < rows ? {} : { full }),
    })
  return parts
}
