/**
 * Decides stored notifications anew: one that is due and undecided, one whose turn in the throttle queue has come, one
 * whose recipient changed a preference, or a dead letter that an operator redrives. Each redecision ends in one move.
 */
import { awaitsLimits } from '../awaits-limits.ts'
import { type Conflicted, conflicted, isAmong, retryOnConflict } from '../conflict.ts'
import { isStateAway, SluiceError } from '../errors.ts'
import type { Notification, Patch, Recipient } from '../model.ts'
import { delayingLimit, isFinal, revisionOf } from '../model.ts'
import { recipientSubject } from '../policy/subject.ts'
import type { Notifier } from '../ports/fleet.ts'
import type { ReportedOf, StoredRecipient } from '../ports/recipients.ts'
import type { ThrottleTurn } from '../ports/tenants.ts'
import type { Clock, LimitState, Page, Store, TenantGeneration } from '../ports.ts'
import type { Ledger, RecipientLimiter, Scheduler } from '../stages.ts'
import { generationsOf } from '../state-generation.ts'
import { type UndoList, withUndo } from '../undo.ts'
import { type Candidate, type EvaluationMode, hasBooked, hasNotLeft } from './candidate.ts'
import { decidedFor, digestWrites, forgetConflicting } from './candidate-writes.ts'
import { createDecisionRetries, retryMsMin } from './decision-retries.ts'
import type { OpenDigests } from './digests/open-digests.ts'
import { type Evaluator, moveTo } from './evaluate.ts'
import type { Handover } from './handover.ts'
import type { MovingUp } from './moving-up.ts'
import { createPromotion, type Promotion } from './promotion.ts'
import { type ForbiddenHours, isHoldReason } from './quiet-hours.ts'
import type { RecipientCache } from './recipient-cache.ts'
import type { ReleaseHolds } from './release-holds.ts'
import type { TenantThrottle } from './tenant-throttle/tenant-throttle.ts'
import { createUndecided, type Undecided, type UndecidedOptions } from './undecided-notifications.ts'

export interface RedecisionOptions extends Pick<UndecidedOptions, 'policy' | 'keepsLimits'> {
  readonly store: Pick<Store, 'notification' | 'waiting' | 'isVersioned' | 'othersCallForMs'>
  readonly ledger: Ledger
  readonly limiter: RecipientLimiter
  readonly recipients: RecipientCache
  readonly scheduler: Scheduler
  readonly evaluator: Pick<Evaluator, 'evaluate' | 'ineligibility'>
  readonly digests: Pick<OpenDigests, 'forget'>
  readonly handover: Handover
  readonly throttle: TenantThrottle
  readonly releaseHolds: ReleaseHolds
  readonly state: Pick<LimitState, 'pause'>
  readonly forbiddenHours: Pick<ForbiddenHours, 'reasonAt'>
  readonly movingUp: Pick<MovingUp, 'moveUpAfter'>
  readonly notifier: Pick<Notifier, 'tell'>
  readonly clock: Clock
  readonly onError: (what: string, error: unknown) => void
}

export interface Redecision {
  /** Decides due, undecided notifications. Each one in a throttle queue passes now, or is scheduled for its later place. */
  resume(notifications: readonly Notification[]): Promise<void>
  /** Decides notifications that were accepted undecided because the limits could not be asked. */
  readonly undecided: Undecided
  /** Decides notifications whose turn in the throttle queue has come before their stored `dueAt`. */
  readonly promotion: Promotion
  /** Decides a dead letter anew, in room of this generation; false where the record has changed meanwhile. */
  bringBack(dead: Notification, room?: number): Promise<boolean>
  /** Decides an item whose digest is not open: it joins another digest, or leaves. */
  adopt(item: Notification): Promise<boolean>
  /** Applies the recipient's preferences to a waiting notification, where the process died within `saveRecipient`. */
  review(waiting: Notification): Promise<void>
  /** Writes a recipient's preferences and applies them at once to all of the recipient's waiting notifications. */
  saveRecipient(recipient: StoredRecipient, reportedOf?: readonly ReportedOf[]): Promise<boolean>
}

/** Rows of one recipient that are in memory at once while a changed preference is applied to them. */
const reviewedAtOnce = 250

/** Options of a redecision. */
interface RedecisionMode extends EvaluationMode {
  /** It stays in the throttle queue until then, epoch ms. */
  readonly waitsUntil?: number
  /** It held a reservation in the limits, which is cancelled first. */
  readonly holds?: boolean
  /** It is suppressed, or left as it is where the recipient's newest preferences forbid it no more. */
  readonly onlySuppresses?: boolean
  /** The generations of limiter state in which it is decided. */
  readonly generations?: readonly TenantGeneration[]
}

export function createRedecision(options: RedecisionOptions): Redecision {
  const { store, ledger, limiter, recipients, scheduler, evaluator } = options
  const { handover, throttle, releaseHolds, clock } = options
  const { state, forbiddenHours, movingUp, notifier, policy, keepsLimits, onError } = options
  /** Notifications whose turn is being taken: the scheduler and the throttle queue may both name them. */
  const turning = new Map<string, Notification>()
  /** Tries after a failure, and after a concurrent change: what fails while the limits are away was not refused. */
  const [retries, refusals] = [createDecisionRetries(clock), createDecisionRetries(clock)]

  async function resume(notification: Notification): Promise<void> {
    try {
      if (delayingLimit(notification) === undefined) await redecide(notification, {})
      else await takeTurn(notification)
    } catch (error) {
      retryLater(notification, error, true)
      throw error
    }
  }

  async function takeTurn(notification: Notification): Promise<void> {
    const { id } = notification
    const other = turning.get(id)
    if (other !== undefined) {
      // The turn that is being taken does not know this copy, and retries it itself after a failure.
      if (other !== notification) ledger.release(notification)
      return
    }
    turning.set(id, notification)
    try {
      await writeTurn(notification)
    } finally {
      turning.delete(id)
    }
  }

  async function writeTurn(notification: Notification): Promise<void> {
    const turn = await throttle.turn(notification)
    const { passed, at, generation } = turn
    const generations = generationsOf(notification.tenant, { throttle: generation })
    let isWritten = false
    try {
      isWritten = passed
        ? await redecide(notification, generations, { turnedAt: at })
        : await redecide(notification, { waitsUntil: at, ...generations })
    } finally {
      if (!isWritten) await returnTurn(notification, turn)
    }
  }

  /**
   * Puts a notification back into the throttle queue whose turn could not be written, unless it has ended meanwhile: then
   * it leaves the queue, in which an outdated turn may have put it again. A turn that another process has written stays
   * counted. Where its record cannot be read it throws, and the next try finds out.
   */
  async function returnTurn(notification: Notification, turn: ThrottleTurn): Promise<void> {
    const { tenant, id } = notification
    const recorded = async (): Promise<Notification | undefined> =>
      ledger.live(id)?.notification ?? (await store.notification(tenant, id))
    if (turn.passed) {
      // Another process was given the same turn. In the queue its place would go to the next that is unknown there.
      if (hasTurned(await recorded())) return
      await throttle.putBack(notification, turn)
    }
    // Read only now: what ends it from here on takes it out of the queue itself.
    const last = await recorded()
    if (last !== undefined && delayingLimit(last) !== undefined) return
    if (hasTurned(last)) await throttle.leaveCounted(notification)
    else await throttle.giveBack([notification])
  }

  const hasTurned = (of: Notification | undefined): boolean =>
    of?.turnedAt !== undefined && delayingLimit(of) === undefined

  /**
   * Writes the move to a new verdict; false where the record has changed meanwhile. A digest that closed meanwhile leads
   * to a retry. After an error the notification is not in memory any more.
   */
  async function redecide(
    before: Notification,
    { holds, ...mode }: RedecisionMode,
    patch: Patch = {},
  ): Promise<boolean> {
    // An outdated copy is refused by the store, and must not continue the events of the newer one.
    const live = ledger.live(before.id)
    const isSame = live !== undefined && revisionOf(live.notification) === revisionOf(before)
    const path = isSame ? live.events : []
    ledger.release(before)
    if (holds === true) {
      const recipient = await recipients.find(before.tenant, before.to.id)
      await limiter.takeBack([{ notification: before, recipient }])
    }
    const result = await retryOnConflict(() =>
      withUndo(onError, (undo) => redecideOnce(before, { ...mode, patch, path }, undo)),
    )
    if (result === true) {
      retries.decided(before.id)
      refusals.decided(before.id)
      return true
    }
    const retryMs = refusals.next(before.id)
    // Once is a concurrent change; again and again is a fault that somebody has to see.
    if (retryMs > retryMsMin)
      onError(`decide ${before.id}, again in ${retryMs} ms`, new Error('its change was refused again'))
    await scheduler.recover(before, retryMs)
    return false
  }

  /** Decides and commits once; false where the notification itself has changed. */
  async function redecideOnce(
    before: Notification,
    decided: Omit<RedecisionMode, 'holds'> & {
      readonly patch: Patch
      readonly path: Notification['timeline']
    },
    undo: UndoList,
  ): Promise<boolean | Conflicted> {
    const { waitsUntil, patch, path, generations, onlySuppresses, again = true, ...mode } = decided
    const recipient = await recipients.find(before.tenant, before.to.id)
    const each: Candidate = { notification: { ...before, ...patch }, recipient }
    // Another process has lifted the opt-out. To reserve as a newcomer would wait for the pause of this change.
    if (onlySuppresses === true && evaluator.ineligibility(each) === undefined) return false
    // One that was never decided passes the limits of its tenant first.
    const passed = again ? undefined : await throttle.pass([each], undo)
    const { turnedAt = before.createdAt } = each.notification
    const pass = again || each.verdict !== undefined ? {} : { turnedAt }
    if (waitsUntil !== undefined) throttle.wait(each, waitsUntil)
    const isHeldElsewhere = (): Promise<boolean> => holdsSince(before)
    await evaluator.evaluate([each], undo, { ...mode, again, isHeldElsewhere })
    await passed?.releaseSuppressed()
    const verdict = each.verdict!
    const decision = { ...verdict, patch: { ...patch, ...pass, ...verdict.patch } }
    const move = moveTo(before, clock.now(), decision, path)
    const result = await ledger.commit({
      moves: [move],
      ...(store.isVersioned ? { decidedFor: decidedFor([each]) } : {}),
      ...digestWrites([each]),
      ...(generations === undefined
        ? generationsOf(before.tenant, { throttle: passed?.generation })
        : { generations }),
    })
    if (!result.applied) {
      forgetConflicting(options, [each], result.conflicts)
      // The limiter state was filled again: what it gave, such as a turn, must be asked for again.
      const { id, tenant } = before
      const isOver =
        isAmong(result.conflicts, 'notification', id) || isAmong(result.conflicts, 'generation', tenant)
      return isOver ? false : conflicted
    }
    undo.keep()
    handover([each], [move.after])
    if (verdict.status === 'suppressed') await releaseHolds(before, verdict.status)
    return true
  }

  /** Resolves to true if another writer has moved the notification on, to where it holds an instant of its limits. */
  async function holdsSince(before: Notification): Promise<boolean> {
    const { tenant, id } = before
    return hasBooked(ledger.live(id)?.notification ?? (await store.notification(tenant, id)), before)
  }

  /**
   * Postpones a notification that could not be decided (decision-retries.ts). One whose turn has come before its
   * stored due time does not wait for that again.
   */
  function retryLater(notification: Notification, error: unknown, hasCome = false): void {
    const live = ledger.live(notification.id)
    // A concurrent change has moved the notification on and scheduled it.
    if (live !== undefined && revisionOf(live.notification) > revisionOf(notification)) return
    const now = clock.now()
    // A copy, which alone is current: the scheduler and the queue may still have the notification itself.
    const kept = { ...notification }
    if (!awaitsLimits(kept) && (kept.status !== 'scheduled' || (kept.dueAt > now && !hasCome))) {
      scheduler.place([kept])
      return
    }
    ledger.hold(kept)
    scheduler.postpone(kept, now + retries.next(kept.id, error))
  }

  const decide = (before: Notification): Promise<boolean> => redecide(before, { again: false })
  const asked = { policy, keepsLimits, ledger, scheduler, clock, onError }
  const undecided = createUndecided({ ...asked, decide, retryLater })

  const promotion = createPromotion({ store, ledger, clock, resume, onError })

  /**
   * Applies a changed preference: a notification that is opted out is suppressed, and one scheduled for hours that are
   * quiet now is reserved again for later. One that may leave earlier moves up afterwards. Returns `conflicted` after a
   * concurrent change: then its reservation was cancelled, and it is reserved again in any case.
   */
  async function reviewOnce(
    recorded: Notification,
    isReleased: boolean,
    leavesHeld: boolean,
  ): Promise<true | Conflicted> {
    const recipient = await recipients.find(recorded.tenant, recorded.to.id)
    const live = ledger.live(recorded.id)
    if (live?.status === 'sending') return true
    // It may have been sent since its page was read: then its slot counts and must not be cancelled.
    const notification = live?.notification ?? (await store.notification(recorded.tenant, recorded.id))
    if (notification === undefined || !hasNotLeft(notification)) return true
    const refused = evaluator.ineligibility({ notification, recipient }) !== undefined
    const holds =
      notification.status !== 'digesting' && notification.undecided !== true && notification.attempts === 0
    const leavesAt = Math.max(clock.now(), notification.dueAt)
    const forbidden = holds ? forbiddenHours.reasonAt(notification, recipient, leavesAt) : undefined
    // The walk of a hold brings it behind that in the order of acceptance; alone it would lose its place to later ones.
    const isForbidden = forbidden !== undefined && !(leavesHeld && isHoldReason(forbidden))
    if (!refused && !isForbidden && !(isReleased && holds)) return true
    try {
      // The holds of a suppressed one are released after its commit, also where the limits cannot be asked now.
      const mode = refused ? { onlySuppresses: true } : { holds: true, waitOnly: true, waited: true }
      return (await redecide(notification, mode)) || conflicted
    } catch (error) {
      retryLater(notification, error)
      throw error
    }
  }

  async function review(waiting: Notification, released = false, leavesHeld = false): Promise<void> {
    let recorded: Notification | undefined = waiting
    let isReleased = released
    await retryOnConflict(async () => {
      if (recorded === undefined || isFinal(recorded.status) || recorded.status === 'dead') return true
      const result = await reviewOnce(recorded, isReleased, leavesHeld)
      if (result === conflicted) recorded = await store.notification(waiting.tenant, waiting.id)
      isReleased = result === conflicted
      return result
    })
  }

  /** Reviews all waiting notifications of a recipient; a failure of one does not keep the others from it. */
  async function reviewAll({ tenant, id }: Recipient): Promise<void> {
    let failed: { readonly error: unknown } | undefined
    for (let cursor: string | null | undefined; cursor !== null; ) {
      const page: Page<Notification> = await store.waiting(tenant, id, cursor ?? null, reviewedAtOnce)
      for (const notification of page.items)
        await review(notification, false, true).catch((error: unknown) => {
          // Where the limits cannot be asked, hours that have changed are met when it is due.
          if (!isStateAway(error)) failed ??= { error }
        })
      cursor = page.nextCursor
    }
    if (failed !== undefined) throw failed.error
  }

  /** Waits until no other process makes a call any more that began before the write. */
  async function untilOthersKnow(writtenAt: number): Promise<void> {
    const { othersCallForMs } = store
    if (othersCallForMs > 0)
      await new Promise<void>((resolve) => clock.at(writtenAt + othersCallForMs, resolve))
  }

  return {
    undecided,

    async resume(notifications) {
      undecided.add(notifications.filter(awaitsLimits))
      await all(notifications.filter((each) => !awaitsLimits(each)).map(resume))
    },

    promotion,

    async bringBack(dead, room) {
      try {
        const mode = { holds: true, waitOnly: true, ...generationsOf(dead.tenant, { room }) }
        return await redecide(dead, mode, { attempts: 0 })
      } catch (error) {
        retryLater(dead, error)
        throw error
      }
    },

    adopt: (item) => redecide(item, {}),

    review,

    async saveRecipient(recipient, reportedOf = []) {
      const subject = recipientSubject(recipient.tenant, recipient.id)
      // Waiting notifications gain by the change before new ones, and none of them moves up in the middle of it.
      await state.pause([subject])
      let isWritten = false
      await movingUp.moveUpAfter(subject, async () => {
        const condition = reportedOf.length === 0 ? {} : { reportedOf }
        const result = await ledger.commit({ recipients: [rowOf(recipient)], ...condition })
        if (!result.applied && isAmong(result.conflicts, 'erased', recipient.id))
          throw new SluiceError('NOT_FOUND', 'This person was erased.')
        isWritten = result.applied
        const writtenAt = clock.now()
        if (isWritten)
          notifier.tell({ topic: 'recipient', tenant: recipient.tenant, recipient: recipient.id })
        // Its version on record is unknown here.
        if (store.isVersioned) recipients.forget(recipient.tenant, recipient.id)
        else recipients.put(recipient)
        if (!isWritten) return
        await reviewAll(recipient)
        await untilOthersKnow(writtenAt)
      })
      return isWritten
    },
  }
}

/** An erased recipient has opt-outs alone, which are stored under the name that is left. */
function rowOf({ erased, left: _, ...recipient }: StoredRecipient): Recipient {
  if (erased === undefined) return recipient
  const { tenant, version, optOuts = [] } = recipient
  return { tenant, id: erased, optOuts, ...(version === undefined ? {} : { version }) }
}

/** Waits for all promises and then throws the first error: a failure does not interrupt the others. */
async function all(works: readonly Promise<void>[]): Promise<void> {
  for (const end of await Promise.allSettled(works)) if (end.status === 'rejected') throw end.reason
}
