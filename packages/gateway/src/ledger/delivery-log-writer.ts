/**
 * Brings changes of state from the outbox of the store to the delivery log: reads the oldest, writes them, and removes
 * them when the log has them. A process that ends in between leaves them in the outbox, and the next one writes them
 * again, which makes no second row. Nothing waits for the log: while it is away the outbox grows, up to a bound, above
 * which the oldest are given up and counted. An erasure is never given up: the log would keep the recipient.
 */
import { type DeliveryLog, entriesOf, isErasure, type Outbox, type OutboxRow } from '../ports/delivery-log.ts'
import type { Members } from '../ports/fleet.ts'
import type { Clock } from '../ports.ts'

export interface DeliveryLogWriterOptions {
  readonly outbox: Outbox
  readonly log: DeliveryLog
  /** One process of a fleet writes for all. */
  readonly members: Pick<Members, 'holds'>
  readonly clock: Clock
  /** Entries that may wait; above it the oldest are given up. @defaultValue 1_000_000, some 200 MB */
  readonly waitingMax?: number
  /** Called when the log goes away. */
  readonly onAway: (error: unknown) => void
  /** Called when it is back, with the time that it was away. */
  readonly onBack: (awayMs: number) => void
  /** Called with the number of entries that were given up since the last call: at most once in a minute. */
  readonly onLost: (entries: number) => void
  readonly onError: (what: string, error: unknown) => void
}

interface DeliveryLogReport {
  /** Entries in the outbox; 0 at a process that does not write the log. */
  readonly waiting: number
  /** The instant of the oldest of them, epoch ms; undefined where none waits. */
  readonly oldestAt: number | undefined
  readonly written: number
  readonly lost: number
  /** The instant since which the log does not answer; undefined while it does. */
  readonly awaySince: number | undefined
}

export interface DeliveryLogWriter {
  start(): void
  report(): DeliveryLogReport
  /** Ends without waiting for a write under way: the next process repeats it. */
  stop(): Promise<void>
}

/** Entries of one write. Cassandra took 1,000 in some 0.1 s. */
const pageEntries = 1_000
/** Time between two looks at an outbox that was empty, ms: changes that are made meanwhile share one write. */
const idleMs = 1_000
/** Time between two tries while the log is away, ms. */
const retryMs = 1_000
/** Time between two counts of the outbox, ms. */
const countEveryMs = 1_000
const tellLossEveryMs = 60_000
/** Entries that are given up in one transaction. */
const dropMax = 10_000

export function createDeliveryLogWriter(options: DeliveryLogWriterOptions): DeliveryLogWriter {
  const { outbox, log, members, clock, waitingMax = 1_000_000, onError } = options
  let disarm = (): void => {}
  let isStopped = false
  let waiting = 0
  let oldestAt: number | undefined
  let written = 0
  let lost = 0
  let untold = 0
  let awaySince: number | undefined
  /** The instant before the last reading of a page. */
  let readAt = 0
  let countedAt = Number.NEGATIVE_INFINITY
  let toldAt = Number.NEGATIVE_INFINITY

  /** Counts the outbox, and gives up the oldest entries above the bound. */
  async function keepBound(): Promise<void> {
    const now = clock.now()
    if (now < countedAt + countEveryMs) return
    countedAt = now
    waiting = await outbox.size()
    // Rows at the beginning that stay, because an erasure is in them.
    let stay = { rows: 0, entries: 0 }
    while (waiting > waitingMax && !isStopped) {
      const rows = await outbox.read(stay.entries + Math.min(dropMax, waiting - waitingMax))
      const [kept, dropped] = [rows.filter(hasErasure), rows.filter((row) => !hasErasure(row))]
      if (dropped.length === 0 && kept.length === stay.rows) break
      stay = { rows: kept.length, entries: entriesIn(kept) }
      await outbox.remove(dropped.map(({ position }) => position))
      waiting -= entriesIn(dropped)
      giveUp(entriesIn(dropped))
    }
    if (untold === 0 || now < toldAt + tellLossEveryMs) return
    toldAt = now
    options.onLost(untold)
    untold = 0
  }

  function giveUp(entries: number): void {
    lost += entries
    untold += entries
  }

  async function write(rows: readonly OutboxRow[]): Promise<boolean> {
    try {
      await log.write(
        rows.flatMap(({ records }) => records),
        readAt,
      )
    } catch (error) {
      if (awaySince === undefined && !isStopped) {
        awaySince = clock.now()
        options.onAway(error)
      }
      return false
    }
    if (awaySince !== undefined) options.onBack(clock.now() - awaySince)
    awaySince = undefined
    return true
  }

  /** Writes one page; returns the time until the next one, ms. */
  async function round(): Promise<number> {
    if (!members.holds('delivery-log')) {
      waiting = 0
      oldestAt = undefined
      return idleMs
    }
    await keepBound()
    // A clock that was set back makes no later page an earlier one.
    readAt = Math.max(readAt, clock.now())
    const rows = await outbox.read(pageEntries)
    // A process that stood still meanwhile has lost the role, and its successor writes these rows.
    if (!members.holds('delivery-log')) return idleMs
    oldestAt = instantOf(rows)
    if (rows.length === 0) return idleMs
    if (!(await write(rows))) return retryMs
    await outbox.remove(rows.map(({ position }) => position))
    const taken = entriesIn(rows)
    const readable = rows.reduce(
      (sum, { records }) => sum + records.reduce((n, each) => n + entriesOf(each), 0),
      0,
    )
    written += readable
    // A row that cannot be read any more is gone with its entries.
    if (taken > readable) giveUp(taken - readable)
    waiting = Math.max(0, waiting - taken)
    if (taken >= pageEntries) return 0
    oldestAt = undefined
    return idleMs
  }

  function next(afterMs: number): void {
    if (isStopped) return
    disarm = clock.at(clock.now() + afterMs, () => {
      round().then(next, (error: unknown) => {
        if (!isStopped) onError('write the delivery log', error)
        next(retryMs)
      })
    })
  }

  return {
    start: () => next(0),
    report: () => ({ waiting, oldestAt, written, lost, awaySince }),
    async stop() {
      isStopped = true
      disarm()
      await log.close()
    },
  }
}

const entriesIn = (rows: readonly OutboxRow[]): number => rows.reduce((sum, { entries }) => sum + entries, 0)

const hasErasure = ({ records }: OutboxRow): boolean => records.some(isErasure)

/** The instant of the first change in these rows. */
function instantOf(rows: readonly OutboxRow[]): number | undefined {
  const first = rows[0]?.records[0]
  if (first === undefined) return undefined
  return isErasure(first) ? first.erasedAt : first.events[0]?.at
}
