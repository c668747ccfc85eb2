/** Deletes stored answers, ended notifications and unreadable records that are older than the operator keeps them, in a round every ten minutes. */

import type { Members } from '../ports/fleet.ts'
import type { IntakeRecord } from '../ports/intake.ts'
import type { Clock } from '../ports.ts'
import type { Ledger } from '../stages.ts'

export interface RetentionOptions {
  readonly ledger: Pick<Ledger, 'prune'>
  /** The records that could not be accepted are kept as long as ended notifications. */
  readonly intake: Pick<IntakeRecord, 'prunePoison'>
  /** One process of a fleet prunes for all. */
  readonly members: Pick<Members, 'holds'>
  readonly clock: Clock
  readonly answersMs: number
  readonly notificationsMs: number
  readonly onError: (what: string, error: unknown) => void
  /** Called after each prune with the rows that it removed and its duration. @defaultValue nothing hears of it */
  readonly onDone?: ((rows: number, tookMs: number) => void) | undefined
}

export interface Retention {
  /** The rounds since the start, by outcome. */
  readonly rounds: Readonly<Record<'done' | 'failed', number>>
  stop(): void
}

/** Interval between prunes, ms: often enough that each is short. */
const everyMs = 10 * 60_000

/** Nothing is older: a round with it forgets nothing, and tells how old the record is. */
const nothing = { answers: 0, notifications: 0 }

export function startRetention(options: RetentionOptions): Retention {
  const { ledger, intake, members, clock, onError } = options
  const rounds = { done: 0, failed: 0 }
  let disarm = clock.at(clock.now() + everyMs, prune)
  look()

  function look(): void {
    ledger.prune(nothing).catch((error) => onError('look for the oldest notification', error))
  }

  function prune(): void {
    const now = clock.now()
    disarm = clock.at(now + everyMs, prune)
    if (!members.holds('retention')) {
      look()
      return
    }
    const notifications = now - options.notificationsMs
    Promise.all([
      ledger.prune({ answers: now - options.answersMs, notifications }),
      intake.prunePoison(notifications),
    ])
      .then(([rows, records]) => {
        rounds.done += 1
        options.onDone?.(rows + records, clock.now() - now)
      })
      .catch((error) => {
        rounds.failed += 1
        onError('forget what is over', error)
      })
  }

  return { rounds, stop: () => disarm() }
}
