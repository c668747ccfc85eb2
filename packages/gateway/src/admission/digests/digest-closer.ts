/**
 * The end of a digest's window. What it writes is planned (digest-plan.ts) from what is on record and committed as one
 * change; where an item joined or went meanwhile, it is planned anew. A closing that fails for a reason of its own is
 * put off, each time for longer, and done by other means: with fewer items, in the end one by one and undecided, so that
 * whatever is wrong with a digest costs nobody else more than a closing now and then.
 */
import { conflicted, retryOnConflict } from '../../conflict.ts'
import { SluiceError } from '../../errors.ts'
import type { Digest } from '../../model.ts'
import type { Clock } from '../../ports.ts'
import type { Contents, Ledger, Scheduler } from '../../stages.ts'
import type { Evaluator } from '../evaluate.ts'
import type { ReleaseHolds } from '../release-holds.ts'
import type { DigestPlanner, Extent, Plan } from './digest-plan.ts'
import type { OpenDigests } from './open-digests.ts'

export interface DigestCloserOptions {
  readonly planner: DigestPlanner
  readonly ledger: Pick<Ledger, 'commit'>
  readonly scheduler: Pick<Scheduler, 'place' | 'noteDigest'>
  readonly digests: OpenDigests
  readonly evaluator: Pick<Evaluator, 'takeBack'>
  readonly releaseHolds: ReleaseHolds
  readonly contents: Pick<Contents, 'keep'>
  readonly clock: Pick<Clock, 'now'>
  readonly onError?: ((what: string, error: unknown) => void) | undefined
}

export interface DigestCloser {
  /** Throws only where nothing can be written now. */
  close(digest: Digest): Promise<void>
  /** Whether its closing has failed before, so that it is put off. */
  hasFailed(digest: Pick<Digest, 'id'>): boolean
}

/** Until a closing that failed is tried again: twice as long each time. */
const againMsMin = 1_000
const againMsMax = 5 * 60_000
/** Digests whose failures are remembered; beyond it all of them begin anew. */
const failuresMax = 10_000

/** By other means from the third failure on: a digest of a few, from the fifth on no digest. */
export function extentAfter(failures: number): Extent {
  if (failures < 2) return 'whole'
  return failures < 4 ? 'few' : 'apart'
}

export function createDigestCloser(options: DigestCloserOptions): DigestCloser {
  const { planner, ledger, scheduler, digests, evaluator, releaseHolds, clock } = options
  /** How often the closing of a digest has failed, until it is closed. */
  const failures = new Map<string, number>()

  async function closeOnce(digest: Digest, extent: Extent): Promise<true | typeof conflicted> {
    const plan = await planner.plan(digest, extent)
    // It is held up as before.
    if (isEmpty(plan)) return true
    let result: Awaited<ReturnType<Ledger['commit']>>
    try {
      result = await ledger.commit(plan)
    } catch (error) {
      await evaluator.takeBack(plan.held)
      throw error
    }
    if (!result.applied) {
      await evaluator.takeBack(plan.held)
      // Whoever closed it has done what is to be done.
      return (await planner.isOpen(digest)) ? conflicted : true
    }
    for (const content of plan.contents ?? []) options.contents.keep(content)
    scheduler.place([...plan.accept, ...plan.moves.map((move) => move.after)])
    for (const { before, after } of plan.moves) {
      if (after.status === 'suppressed') await releaseHolds(before, after.status)
    }
    for (const write of plan.digests) {
      if (write.kind === 'close') failures.delete(digest.id)
      else scheduler.noteDigest(write.digest.closesAt)
    }
    return true
  }

  const isEmpty = ({ accept, moves, digests: writes, held }: Plan): boolean =>
    accept.length + moves.length + writes.length + held.length === 0

  async function putOff(digest: Digest, error: unknown): Promise<void> {
    const count = (failures.get(digest.id) ?? 0) + 1
    if (failures.size >= failuresMax) failures.clear()
    failures.set(digest.id, count)
    options.onError?.(`close digest ${digest.id}, failure ${count}`, error)
    const closesAt = clock.now() + Math.min(againMsMax, againMsMin * 2 ** Math.min(count - 1, 30))
    await ledger.commit({ digests: [{ kind: 'postpone', digest: { ...digest, closesAt } }] })
    scheduler.noteDigest(closesAt)
  }

  return {
    hasFailed: (digest) => failures.has(digest.id),
    async close(digest) {
      // Who wants to join waits until it is known whether it stays open.
      const letJoin = digests.hold(digest)
      try {
        const extent = extentAfter(failures.get(digest.id) ?? 0)
        if ((await retryOnConflict(() => closeOnce(digest, extent))) === conflicted)
          await putOff(digest, new Error('its items changed each time while it was being closed'))
      } catch (error) {
        // The store or the limits are away: that is no fault of the digest. A damaged row of it does not come back.
        if (error instanceof SluiceError && error.retryable && error.row === undefined) throw error
        await putOff(digest, error)
      } finally {
        letJoin()
      }
    },
  }
}
