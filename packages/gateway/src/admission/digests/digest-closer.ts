/**
 * Closes a digest at the end of its window. digest-plan.ts plans one change from the stored items, which is committed;
 * an item that joined or left meanwhile leads to a retry. A closing that fails for a reason of its own is postponed with
 * exponential backoff and simplified: with fewer items, in the end one by one and undecided, so that a faulty digest
 * costs the other digests no more than a closing now and then.
 */
import { type Conflicted, conflicted, retryOnConflict } from '../../conflict.ts'
import { SluiceError } from '../../errors.ts'
import type { Digest } from '../../model.ts'
import type { Clock } from '../../ports.ts'
import type { Ledger, Scheduler } from '../../stages.ts'
import { type UndoList, withUndo } from '../../undo.ts'
import type { ReleaseHolds } from '../release-holds.ts'
import type { ScheduleCommitted } from '../schedule-committed.ts'
import type { DigestPlanner, Extent, Plan } from './digest-plan.ts'
import type { OpenDigests } from './open-digests.ts'

export interface DigestCloserOptions {
  readonly planner: DigestPlanner
  readonly ledger: Pick<Ledger, 'commit'>
  readonly scheduler: Pick<Scheduler, 'noteDigest'>
  readonly digests: Pick<OpenDigests, 'hold'>
  readonly schedule: ScheduleCommitted
  readonly releaseHolds: ReleaseHolds
  readonly clock: Pick<Clock, 'now'>
  readonly onError: (what: string, error: unknown) => void
}

export interface DigestCloser {
  /** Closes or postpones the digest. Throws only where the store or the limits are unavailable. */
  close(digest: Digest): Promise<void>
  /** True where a closing of the digest has failed before, so that it is postponed. */
  hasFailed(digest: Pick<Digest, 'id'>): boolean
}

/** Retry delay of a failed closing, ms: doubles with each failure. */
const retryMsMin = 1_000
const retryMsMax = 5 * 60_000
/** Digests whose failures are remembered; beyond this number all counts start at zero again. */
const failuresMax = 10_000

/** Returns the extent of the next try: a digest of few items from the third failure on, no digest from the fifth on. */
export function extentAfter(failures: number): Extent {
  if (failures < 2) return 'whole'
  return failures < 4 ? 'few' : 'apart'
}

export function createDigestCloser(options: DigestCloserOptions): DigestCloser {
  const { planner, ledger, scheduler, digests, schedule, releaseHolds, clock, onError } = options
  /** Failed closings by digest id, removed when the digest is closed. */
  const failures = new Map<string, number>()
  /**
   * The closing under way of each digest; another one comes after it. Two at once would write the same change, and one of
   * them whose answer is lost would find that of the other on record.
   */
  const closing = new Map<string, Promise<void>>()

  /** Returns the digest as it stands on record where that has changed. */
  async function closeOnce(digest: Digest, extent: Extent, undo: UndoList): Promise<true | Digest> {
    const plan = await planner.plan(digest, extent, undo)
    // Nothing has changed: its limits still hold it up.
    if (isEmpty(plan)) return true
    // A digest closed by a concurrent change needs nothing more.
    if (!(await ledger.commit(plan)).applied) return (await planner.present(digest)) ?? true
    undo.keep()
    schedule([...plan.accept, ...plan.moves.map((move) => move.after)], plan.contents)
    for (const { before, after } of plan.moves) {
      if (after.status === 'suppressed') await releaseHolds(before, after.status)
    }
    for (const write of plan.digests) {
      if (write.kind === 'close') failures.delete(digest.id)
      else scheduler.noteDigest(write.digest.closesAt)
    }
    return true
  }

  const isEmpty = ({ accept, moves, digests: writes }: Plan): boolean =>
    accept.length + moves.length + writes.length === 0

  async function putOff(digest: Digest, error: unknown): Promise<void> {
    const count = (failures.get(digest.id) ?? 0) + 1
    if (failures.size >= failuresMax) failures.clear()
    failures.set(digest.id, count)
    onError(`close digest ${digest.id}, failure ${count}`, error)
    const closesAt = clock.now() + Math.min(retryMsMax, retryMsMin * 2 ** Math.min(count - 1, 30))
    // Another process may have put it off since it was read. A damaged row is put off as well.
    const present = await planner.present(digest).catch(() => digest)
    if (present === undefined) return
    await ledger.commit({ digests: [{ kind: 'postpone', digest: { ...present, closesAt } }] })
    scheduler.noteDigest(closesAt)
  }

  async function closeAlone(found: Digest): Promise<void> {
    let digest = found
    // Items that want to join wait until it is known whether the digest stays open.
    const letJoin = digests.hold(digest)
    try {
      const extent = extentAfter(failures.get(digest.id) ?? 0)
      const result = await retryOnConflict(async (): Promise<true | Conflicted> => {
        const present = await withUndo(onError, (undo) => closeOnce(digest, extent, undo))
        if (present === true) return true
        digest = present
        return conflicted
      })
      if (result === conflicted)
        await putOff(digest, new Error('its items changed each time while it was being closed'))
    } catch (error) {
      // An unavailable store or limiter is no fault of the digest. A damaged row of the digest is one.
      if (error instanceof SluiceError && error.retryable && error.row === undefined) throw error
      await putOff(digest, error)
    } finally {
      letJoin()
    }
  }

  async function closeIfOpen(digest: Digest): Promise<void> {
    const present = await planner.present(digest).catch(() => digest)
    if (present !== undefined) await closeAlone(present)
  }

  return {
    hasFailed: (digest) => failures.has(digest.id),
    async close(digest) {
      const { id } = digest
      const work = closing.get(id)?.then(() => closeIfOpen(digest)) ?? closeAlone(digest)
      const over = work
        .catch(() => undefined)
        .then(() => {
          if (closing.get(id) === over) closing.delete(id)
        })
      closing.set(id, over)
      await work
    },
  }
}
