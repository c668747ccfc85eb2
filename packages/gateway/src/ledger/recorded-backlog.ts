/**
 * The backlog of several processes over one store. Each of them moves notifications that another one has accepted, so no
 * counters in memory tell the truth: what waits is counted on record when somebody asks for it, and one count serves all
 * questions of the next second. A count reads everything that waits, so it may take a tenth of the time at most: where
 * a million wait, and it takes seconds, it is that much older. What is due later is counted more coarsely, so that memory
 * holds counters for the minutes of a day and not for a million seconds.
 */
import { secondOf } from '../backlog-cell.ts'
import type { Clock, Store } from '../ports.ts'
import { type Backlog, createBacklog } from './backlog.ts'
import { noCounts } from './ledger.ts'

export interface RecordedBacklogOptions {
  readonly store: Pick<Store, 'backlog' | 'tallies'>
  /** `now` measures the work: `monotonic` gains an hour where the wall clock is set on by one, and the rest is a multiple. */
  readonly clock: Pick<Clock, 'now'>
}

/** A count serves so long, ms, from its beginning; at least this many times as long as it took. */
const freshMs = 1_000
const restShare = 10
/** Instants within the first time are counted by the second, those within the second by the minute, s: answers show a day. */
const [bySecondS, byMinuteS] = [15 * 60, 25 * 3_600]

/** Nothing is counted before the first `refresh`. */
export function createRecordedBacklog({ store, clock }: RecordedBacklogOptions): Required<Backlog> {
  let counted = createBacklog()
  let statuses = noCounts()
  let freshUntil = Number.NEGATIVE_INFINITY
  let counting: Promise<void> | undefined
  let hasDead = false

  async function count(): Promise<void> {
    const beganAt = clock.now()
    const now = secondOf(beganAt)
    const [rows, tallies] = await Promise.all([
      store.backlog({
        secondsFrom: now - bySecondS,
        secondsUntil: now + bySecondS,
        minutesUntil: now + byMinuteS,
      }),
      store.tallies(),
    ])
    counted = createBacklog(rows)
    statuses = noCounts()
    for (const tally of tallies) statuses[tally.status] += tally.count
    hasDead = statuses.dead > 0
    freshUntil = beganAt + Math.max(freshMs, restShare * (clock.now() - beganAt))
  }

  async function refresh(): Promise<void> {
    if (clock.now() < freshUntil) return
    counting ??= count().finally(() => {
      counting = undefined
    })
    await counting
  }

  return {
    // The record counts.
    count() {},
    refresh,
    async refreshDead() {
      const tallies = await store.tallies()
      hasDead = tallies.some(({ status, count }) => status === 'dead' && count > 0)
      if (hasDead) await refresh()
    },
    statuses: () => statuses,
    totals(now) {
      const totals = counted.totals(now)
      return hasDead ? totals : { ...totals, dead: [] }
    },
    report: (query) => counted.report(query),
    deadLetters: (filter) => counted.deadLetters(filter),
  }
}
