/** Deletes stored answers and ended notifications that are older than the operator keeps them. */

import type { Members } from '../member-port.ts'
import type { Clock } from '../ports.ts'
import type { Ledger } from '../stages.ts'

export interface RetentionOptions {
  readonly ledger: Pick<Ledger, 'prune'>
  /** One process of a fleet prunes for all. */
  readonly members: Pick<Members, 'holds'>
  readonly clock: Clock
  readonly answersMs: number
  readonly notificationsMs: number
  readonly onError: (what: string, error: unknown) => void
  /** Called after each prune with the rows that it removed and its duration. @defaultValue nothing hears of it */
  readonly onDone?: ((rows: number, tookMs: number) => void) | undefined
}

/** Interval between prunes, ms: often enough that each is short. */
const everyMs = 10 * 60_000

/** Starts the retention timer; returns the function that stops it. */
export function startRetention(options: RetentionOptions): () => void {
  const { ledger, members, clock } = options
  let disarm = clock.at(clock.now() + everyMs, prune)

  function prune(): void {
    const now = clock.now()
    disarm = clock.at(now + everyMs, prune)
    if (!members.holds('retention')) return
    ledger
      .prune({ answers: now - options.answersMs, notifications: now - options.notificationsMs })
      .then((rows) => options.onDone?.(rows, clock.now() - now))
      .catch((error) => options.onError('forget what is over', error))
  }

  return () => disarm()
}
