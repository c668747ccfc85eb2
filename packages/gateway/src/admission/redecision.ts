/**
 * What is on record is decided anew when its prospects change: it is due and was undecided, its turn in a line has come,
 * its recipient changed a preference, an operator brings it back from the dead letters. Each ends in one move.
 */
import { type Conflicted, conflicted, retryOnConflict } from '../conflict.ts'
import { isFinal, type Notification, type Patch, type Recipient, revisionOf } from '../model.ts'
import { recipientSubject } from '../policy/subject.ts'
import type { Clock, LimitState, Page, Store } from '../ports.ts'
import type { Ledger, RecipientLimiter, Scheduler } from '../stages.ts'
import { type Acceptance, digestWrites } from './acceptance.ts'
import type { Candidate, EvaluationMode } from './candidate.ts'
import { type Evaluator, moveTo } from './evaluate.ts'
import type { MovingUp } from './moving-up.ts'
import type { ForbiddenHours } from './quiet-hours.ts'
import type { RecipientCache } from './recipient-cache.ts'
import type { ReleaseHolds } from './release-holds.ts'
import type { TenantThrottle } from './tenant-throttle/tenant-throttle.ts'

export interface RedecisionOptions {
  readonly store: Pick<Store, 'notification' | 'waiting'>
  readonly ledger: Ledger
  readonly limiter: RecipientLimiter
  readonly recipients: RecipientCache
  readonly scheduler: Scheduler
  readonly evaluator: Evaluator
  readonly acceptance: Pick<Acceptance, 'follow' | 'giveUp'>
  readonly throttle: TenantThrottle
  readonly releaseHolds: ReleaseHolds
  readonly state: Pick<LimitState, 'pause'>
  readonly forbiddenHours: Pick<ForbiddenHours, 'reasonAt'>
  readonly movingUp: Pick<MovingUp, 'settleAfter'>
  readonly clock: Clock
}

export interface Redecision {
  /** What is due and undecided. What stood in the line before its tenant's limits passes now, or has a later place. */
  resume(notifications: readonly Notification[]): Promise<void>
  /** Those whose turn in the line has come before the instant on record. */
  promote(tenant: string, ids: readonly string[]): Promise<void>
  /** One dead letter, on its way again; false where the record has moved meanwhile. */
  bringBack(dead: Notification): Promise<boolean>
  /** An item whose digest is not open: it joins another one, or leaves. */
  adopt(item: Notification): Promise<boolean>
  /** Brings what is known of its recipient to one that waits, as `saveRecipient` does: the process that saved it was killed. */
  review(waiting: Notification): Promise<void>
  /** Writes what a recipient wants, and lets what waits for them obey it at once. */
  saveRecipient(recipient: Recipient): Promise<void>
}

/** A raised limit may let thousands pass in one instant. */
const calledAtOnce = 100
/** Rows of one recipient that are in memory at once while a changed preference is brought to them. */
const reviewedAtOnce = 250
/** Until what was due and could not be decided is tried again; twice as long each time. */
const againMsMin = 500
const againMsMax = 60_000
/** Of so many it is remembered how often they failed; beyond it all of them begin anew. */
const failuresMax = 10_000

/** How a notification on record is decided anew. */
interface Anew extends EvaluationMode {
  /** It stands in the line until then. */
  readonly waitsUntil?: number
  /** It held an instant in the limits, which is given back first. */
  readonly holds?: boolean
}

export function createRedecision(options: RedecisionOptions): Redecision {
  const {
    store,
    ledger,
    limiter,
    recipients,
    scheduler,
    evaluator,
    acceptance,
    throttle,
    releaseHolds,
    clock,
  } = options
  const { state, forbiddenHours, movingUp } = options
  /** Those whose turn is being taken: the scheduler and the line may both name them. */
  const turning = new Map<string, Notification>()
  /** How often in a row those failed that are tried again. */
  const failures = new Map<string, number>()

  async function resume(notification: Notification): Promise<void> {
    try {
      if (throttle.behind(notification) === undefined) await redecide(notification, {})
      else await takeTurn(notification)
      failures.delete(notification.id)
    } catch (error) {
      tryAgain(notification)
      throw error
    }
  }

  async function takeTurn(notification: Notification): Promise<void> {
    const { id } = notification
    const other = turning.get(id)
    if (other !== undefined) {
      // Whoever takes its turn already does not know this copy, and looks after it where that fails.
      if (other !== notification) ledger.release(notification)
      return
    }
    turning.set(id, notification)
    try {
      const { passed, at } = await throttle.turn(notification)
      await redecide(notification, passed ? {} : { waitsUntil: at }, passed ? { turnedAt: at } : {})
    } finally {
      turning.delete(id)
    }
  }

  /**
   * Writes the move to a new verdict; false where the record has moved meanwhile. Its digest may have closed: then it
   * is decided again. Where it throws, the notification is not in memory any more.
   */
  async function redecide(
    before: Notification,
    { holds, ...anew }: Anew,
    patch: Patch = {},
  ): Promise<boolean> {
    // Who has read it before it moved on is refused by the store, and does not continue the other's path.
    const live = ledger.live(before.id)
    const isSame = live !== undefined && revisionOf(live.notification) === revisionOf(before)
    const path = isSame ? live.events : []
    ledger.release(before)
    if (holds === true) {
      const recipient = await recipients.find(before.tenant, before.to.id)
      await limiter.cancel([{ notification: before, recipient }])
    }
    const result = await retryOnConflict(() => redecideOnce(before, anew, patch, path))
    if (result === true) return true
    await scheduler.recover(before)
    return false
  }

  /** False where the notification itself is no longer what it was. */
  async function redecideOnce(
    before: Notification,
    { waitsUntil, ...how }: Anew,
    patch: Patch,
    path: Notification['timeline'],
  ): Promise<boolean | Conflicted> {
    const recipient = await recipients.find(before.tenant, before.to.id)
    const each: Candidate = { notification: { ...before, ...patch }, recipient }
    let result: Awaited<ReturnType<Ledger['commit']>> | undefined
    try {
      if (waitsUntil !== undefined) throttle.wait(each, waitsUntil)
      await evaluator.decide([each], { ...how, again: true })
      const verdict = each.verdict!
      const move = moveTo(before, clock.now(), { ...verdict, patch: { ...patch, ...verdict.patch } }, path)
      result = await ledger.commit({ moves: [move], ...digestWrites([each]) })
      if (result.applied) {
        acceptance.follow([each], [move.after])
        if (verdict.status === 'suppressed') await releaseHolds(before, verdict.status)
        return true
      }
      return result.conflicts.includes(before.id) ? false : conflicted
    } finally {
      if (result?.applied !== true) await acceptance.giveUp([each])
    }
  }

  /** What could not be decided is due again soon; the more often that was so, the later. */
  function tryAgain(notification: Notification): void {
    const live = ledger.live(notification.id)
    // Somebody else has moved it on, and placed it.
    if (live !== undefined && revisionOf(live.notification) > revisionOf(notification)) return
    const now = clock.now()
    if (notification.status !== 'scheduled' || notification.dueAt > now) {
      scheduler.place([notification])
      return
    }
    const count = failures.get(notification.id) ?? 0
    if (failures.size >= failuresMax) failures.clear()
    failures.set(notification.id, count + 1)
    ledger.hold(notification)
    scheduler.postpone(notification, now + Math.min(againMsMax, againMsMin * 2 ** Math.min(count, 30)))
  }

  async function callOne(tenant: string, id: string): Promise<void> {
    const notification = ledger.live(id)?.notification ?? (await store.notification(tenant, id))
    if (notification !== undefined && throttle.behind(notification) !== undefined) await resume(notification)
  }

  /**
   * A preference has changed: what is not wanted any more ends, and what was to leave in hours that are quiet now is
   * booked anew for later. What may leave earlier moves up after. Conflicted where it moved on meanwhile: then its place
   * was given back, and it is booked anew in any case.
   */
  async function reviewOnce(recorded: Notification, isReleased: boolean): Promise<true | Conflicted> {
    const recipient = await recipients.find(recorded.tenant, recorded.to.id)
    const live = ledger.live(recorded.id)
    if (live?.status === 'sending') return true
    // It may have left since its page was read: then its place counts, and is not to be given back.
    const notification = live?.notification ?? (await store.notification(recorded.tenant, recorded.id))
    if (notification === undefined || !hasNotLeft(notification)) return true
    const refused = evaluator.ineligibility({ notification, recipient }) !== undefined
    const holds =
      notification.status !== 'digesting' && notification.undecided !== true && notification.attempts === 0
    const leavesAt = Math.max(clock.now(), notification.dueAt)
    const isForbidden = holds && forbiddenHours.reasonAt(notification, recipient, leavesAt) !== undefined
    if (!refused && !isForbidden && !(isReleased && holds)) return true
    try {
      const how = { holds: true, ...(refused ? {} : { patient: true, waited: true }) }
      return (await redecide(notification, how)) ? true : conflicted
    } catch (error) {
      tryAgain(notification)
      throw error
    }
  }

  async function review(waiting: Notification): Promise<void> {
    let recorded: Notification | undefined = waiting
    let isReleased = false
    await retryOnConflict(async () => {
      if (recorded === undefined || isFinal(recorded.status) || recorded.status === 'dead') return true
      const result = await reviewOnce(recorded, isReleased)
      if (result === conflicted) recorded = await store.notification(waiting.tenant, waiting.id)
      isReleased = result === conflicted
      return result
    })
  }

  /** One that fails keeps none of the others from what is wanted now. */
  async function reviewAll({ tenant, id }: Recipient): Promise<void> {
    let failed: { readonly error: unknown } | undefined
    for (let cursor: string | null | undefined; cursor !== null; ) {
      const page: Page<Notification> = await store.waiting(tenant, id, cursor ?? null, reviewedAtOnce)
      for (const notification of page.items)
        await review(notification).catch((error: unknown) => {
          failed ??= { error }
        })
      cursor = page.nextCursor
    }
    if (failed !== undefined) throw failed.error
  }

  return {
    async resume(notifications) {
      await all(notifications.map(resume))
    },

    async promote(tenant, ids) {
      for (let from = 0; from < ids.length; from += calledAtOnce)
        await all(ids.slice(from, from + calledAtOnce).map((id) => callOne(tenant, id)))
    },

    async bringBack(dead) {
      try {
        return await redecide(dead, { holds: true, patient: true }, { attempts: 0 })
      } catch (error) {
        tryAgain(dead)
        throw error
      }
    },

    adopt: (item) => redecide(item, {}),

    review,

    async saveRecipient(recipient) {
      const subject = recipientSubject(recipient.tenant, recipient.id)
      // No newcomer is to gain by what this changes before those who wait, and nobody moves up in the midst of it.
      await state.pause([subject])
      await movingUp.settleAfter(subject, async () => {
        await ledger.commit({ recipients: [recipient] })
        recipients.put(recipient)
        await reviewAll(recipient)
      })
    },
  }
}

const hasNotLeft = ({ status }: Notification): boolean =>
  status === 'scheduled' || status === 'digesting' || status === 'queued'

/** Waits for all of them, and throws the first error then: none of them is cut off by another one's trouble. */
async function all(works: readonly Promise<void>[]): Promise<void> {
  for (const end of await Promise.allSettled(works)) if (end.status === 'rejected') throw end.reason
}
