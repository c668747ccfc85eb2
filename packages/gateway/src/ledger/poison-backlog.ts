/**
 * Counts records of topics that could not be accepted among the dead letters. They are no notifications, so the ledger
 * does not count them: they are counted on record when somebody asks, and one count serves all questions of the next
 * second.
 */
import type { IntakeRecord, PoisonCount } from '../ports/intake.ts'
import type { Clock } from '../ports.ts'
import type { Backlog } from './backlog.ts'

export interface PoisonBacklogOptions {
  readonly intake: Pick<IntakeRecord, 'countPoison'>
  /** `now` measures the work, as in recorded-backlog.ts. */
  readonly clock: Pick<Clock, 'now'>
}

/** A count serves so long, ms, from its beginning; at least this many times as long as it took. */
const freshMs = 1_000
const restShare = 10

/** Adds the records to the counts of a backlog. */
export function withPoison(backlog: Backlog, { intake, clock }: PoisonBacklogOptions): Backlog {
  let counts: readonly PoisonCount[] = []
  let freshUntil = Number.NEGATIVE_INFINITY
  let counting: Promise<void> | undefined

  async function count(): Promise<void> {
    const beganAt = clock.now()
    counts = await intake.countPoison()
    freshUntil = beganAt + Math.max(freshMs, restShare * (clock.now() - beganAt))
  }

  const sum = (rows: readonly PoisonCount[]): number => rows.reduce((total, row) => total + row.count, 0)

  async function refreshPoison(): Promise<void> {
    if (clock.now() < freshUntil) return
    counting ??= count().finally(() => {
      counting = undefined
    })
    await counting
  }

  return {
    ...backlog,
    async refresh() {
      await backlog.refresh?.()
      await refreshPoison()
    },
    async refreshDead() {
      await backlog.refreshDead?.()
      await refreshPoison()
    },
    totals(now) {
      const totals = backlog.totals(now)
      return { ...totals, dead: [...totals.dead, { channel: 'none', reason: 'poison', count: sum(counts) }] }
    },
    deadLetters(filter) {
      const groups = backlog.deadLetters(filter)
      const { tenant, channel } = filter
      const own = tenant === undefined ? counts : counts.filter((row) => row.tenant === tenant)
      if (own.length === 0 || channel !== undefined) return groups
      const oldestAt = Math.min(...own.map((row) => row.oldestAt))
      return [...groups, { cause: 'poison', channel: null, count: sum(own), oldestAt }]
    },
  }
}
