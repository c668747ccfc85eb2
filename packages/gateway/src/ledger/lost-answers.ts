/**
 * Looks up commits whose answer was lost (docs/decisions/0027-lost-answers.md). Two changes of one process can be equal on
 * record, as two cancellations of one millisecond: one of them counts, and the other is a conflict.
 */
import type { Change, Clock, CommitResult, Store } from '../ports.ts'
import type { ChangeUnderWay, ConcurrentMoves } from './concurrent-moves.ts'

export interface LostAnswersOptions {
  readonly store: Pick<Store, 'isApplied'>
  readonly clock: Pick<Clock, 'now' | 'at'>
  readonly concurrent: Pick<ConcurrentMoves, 'isContested'>
}

/** Delays between two questions about a commit whose answer was lost, ms. */
const lookupMsMin = 50
const lookupMsMax = 2_000

/**
 * Finds out what became of a commit whose answer was lost; undefined where it is not on record. Until then it is neither
 * done nor failed, and the versions that it replaces are not sent: it asks until the store answers.
 */
export type LookUp = (change: Change, underWay: ChangeUnderWay) => Promise<CommitResult | undefined>

export function createLostAnswers({ store, clock, concurrent }: LostAnswersOptions): LookUp {
  const wait = (ms: number) => new Promise<void>((resolve) => clock.at(clock.now() + ms, resolve))

  async function isApplied(change: Change): Promise<boolean> {
    for (let waitMs = lookupMsMin; ; waitMs = Math.min(2 * waitMs, lookupMsMax)) {
      try {
        return await store.isApplied(change)
      } catch {
        await wait(waitMs)
      }
    }
  }

  return async (change, underWay) => {
    underWay.isLost = true
    if (!(await isApplied(change))) return undefined
    // The equal change that the store has answered is the one on record. Where all answers are lost, the first change to
    // get here stands for the others.
    while (concurrent.isContested(underWay)) await wait(lookupMsMin)
    const conflicts = underWay.overtaken.map((key) => ({ kind: 'notification' as const, key }))
    return conflicts.length === 0 ? { applied: true } : { applied: false, conflicts }
  }
}
