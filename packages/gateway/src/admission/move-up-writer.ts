/**
 * Writes that a waiting notification has an earlier instant, whoever changes it meanwhile; or the later one that it was
 * planned at behind what was due before and leaves late. Where the store fails, the write is tried again until the
 * notification has changed: its place in the limits is the new one already, and those behind it have theirs after that.
 */
import { concernsAll } from '../errors.ts'
import { type Notification, revisionOf } from '../model.ts'
import type { Clock, Store } from '../ports.ts'
import { retryDelayMs } from '../sleeper.ts'
import type { Ledger, Scheduler } from '../stages.ts'
import type { Verdict } from './candidate.ts'
import { moveTo } from './evaluate.ts'

export interface MoveUpWriterOptions {
  readonly store: Pick<Store, 'notification'>
  readonly ledger: Pick<Ledger, 'commit' | 'live' | 'release'>
  readonly scheduler: Pick<Scheduler, 'place' | 'recover'>
  readonly clock: Pick<Clock, 'now'>
  /** Resolves after so many ms, or at the stop. */
  readonly sleep: (ms: number) => Promise<void>
  readonly isStopped: () => boolean
  readonly onError: (what: string, error: unknown) => void
}

export interface MoveUpWriter {
  /** True if it still waits for its instant, or for its expiry. A queued notification is about to leave. */
  waits(notification: Notification): boolean
  /** `gone` where it does not wait any more. */
  write(found: Notification, verdict: Verdict): Promise<'written' | 'failed' | 'gone'>
  /** True if a write has failed and was not done since: on record the notification holds a later instant than it could. */
  isBehind(): boolean
}

/** A record that moves on again and again is on its way. */
const triesMax = 8
/** Failed writes that are tried again at most: each is a timer. Beyond that the next start moves them up. */
const failedMax = 10_000
/** Delay until the first retry, ms. */
const againMs = 1_000

export function createMoveUpWriter(options: MoveUpWriterOptions): MoveUpWriter {
  const { store, ledger, scheduler, clock, sleep, isStopped, onError } = options
  /** Failed writes that are tried again. */
  let failed = 0
  /** True if more failed than are tried again. */
  let isGivenUp = false

  function waits(notification: Notification): boolean {
    const { id, status, undecided } = notification
    if (status !== 'scheduled' || (ledger.live(id)?.status ?? status) !== 'scheduled') return false
    return undecided !== true || isDoomed(notification)
  }

  async function write(found: Notification, verdict: Verdict): Promise<'written' | 'failed' | 'gone'> {
    // The version in memory, which must not leave while the change is under way: what was read is another object.
    let before: Notification | undefined = ledger.live(found.id)?.notification ?? found
    for (let tries = 0; before !== undefined && waits(before) && tries < triesMax; tries += 1) {
      try {
        if (await commitMove(before, verdict)) return 'written'
      } catch (error) {
        onError('move up', error)
        void tryAgain(before, verdict)
        return 'failed'
      }
      before = ledger.live(found.id)?.notification ?? (await store.notification(found.tenant, found.id))
    }
    await scheduler.recover(found)
    return 'gone'
  }

  /** Returns false where the record has changed. After an error the notification leaves when it was promised to. */
  async function commitMove(before: Notification, verdict: Verdict): Promise<boolean> {
    const path = ledger.live(before.id)?.events ?? []
    const detail = verdict.dueAt > before.dueAt ? 'behind what was due before and left late' : 'moved up'
    ledger.release(before)
    const move = moveTo(before, clock.now(), { ...verdict, detail }, path)
    try {
      const { applied } = await ledger.commit({ moves: [move] })
      if (applied) scheduler.place([move.after])
      return applied
    } catch (error) {
      // A copy, which alone is current: the scheduler still has the notification itself.
      scheduler.place([{ ...before }])
      throw error
    }
  }

  /** Writes the verdict as long as nothing else has changed the notification. */
  async function tryAgain(wrote: Notification, verdict: Verdict): Promise<void> {
    const { tenant, id } = wrote
    if (failed >= failedMax) {
      isGivenUp = true
      return
    }
    failed += 1
    for (let isDone = false, failures = 0, waitMs = againMs; !isDone; failures += 1) {
      await sleep(waitMs)
      isDone = isStopped()
      try {
        if (!isDone) isDone = await isWrittenOrGone(wrote, verdict)
      } catch (error) {
        isDone = !concernsAll(error)
        if (isDone) onError(`let ${id} of ${tenant} move up`, error)
        waitMs = retryDelayMs(againMs, failures + 1, error, failed)
      }
    }
    // After a stop it counts: the next start has to move the notification up.
    if (!isStopped()) failed -= 1
  }

  async function isWrittenOrGone(wrote: Notification, verdict: Verdict): Promise<boolean> {
    const { tenant, id } = wrote
    const recorded = await store.notification(tenant, id)
    const before = ledger.live(id)?.notification ?? recorded
    if (before === undefined || revisionOf(before) !== revisionOf(wrote) || !waits(before)) return true
    if (!(await commitMove(before, verdict))) await scheduler.recover(before)
    return true
  }

  return { waits, write, isBehind: () => failed > 0 || isGivenUp }
}

/** Its limits would have let it leave only after its end. */
function isDoomed({ undecided, dueAt, expiresAt, decision }: Notification): boolean {
  return undecided === true && dueAt === expiresAt && decision.reason !== 'send_at'
}
