/**
 * Duplicates that were accepted around a loss of the server of the limits. Each of them took the fingerprint, the one before
 * the loss and the other after it, and the record could not tell the second of the first. When one is fired the server
 * answers that another holds the fingerprint, and this one is suppressed if the record says that the other goes in its place.
 */
import { isFinal, type Notification } from '../model.ts'
import type { Policy } from '../policy/policy.ts'
import type { HeldPrint } from '../ports/limiter.ts'
import type { Clock, Firing, LimitState, Store } from '../ports.ts'
import type { RecipientLimiter } from '../stages.ts'
import { fingerprintHoldOf, orphanedMs } from './duplicates.ts'

export interface DuplicatesWithheldOptions {
  readonly state: Pick<LimitState, 'fingerprintHolder' | 'holdFingerprints' | 'mayKeepHolds'>
  readonly store: Pick<Store, 'notification'>
  readonly policy: Policy
  readonly clock: Pick<Clock, 'now'>
}

/** Delay before a notification is fired again, ms, while nobody knows yet if the other one leaves. */
const againMs = 200

export function duplicatesWithheld(
  limiter: RecipientLimiter,
  { state, store, policy, clock }: DuplicatesWithheldOptions,
): RecipientLimiter {
  /** Absent where it took none, or took it under another window. */
  function printOf({ priority, fingerprint, createdAt, decision }: Notification): HeldPrint | undefined {
    const windowMs = policy.deduplicationWindowMs
    if (windowMs === undefined || priority === 'critical' || fingerprint === '') return undefined
    if (decision.policyVersion !== policy.version) return undefined
    return { fingerprint, acceptedAt: createdAt, windowMs }
  }

  /**
   * The first of two that are on record stays, unless the other has been delivered. So neither is suppressed for the sake
   * of one that is suppressed itself.
   */
  async function withheld(notification: Notification, firing: Firing): Promise<Omit<Firing, 'freed'>> {
    const hold = fingerprintHoldOf(policy, notification, policy.deduplicationWindowMs)
    const holder = await state.fingerprintHolder(hold)
    const now = clock.now()
    if (holder === undefined || holder.id === hold.id) return { fired: false, at: now }
    const other = await store.notification(hold.subject.tenant, holder.id)
    const isOpen = other === undefined ? now < holder.since + orphanedMs : other.status === 'sending'
    const isOnItsWay = other !== undefined && !isFinal(other.status)
    if (hasGone(other) || (isOnItsWay && other.id < hold.id)) return firing
    if (isOpen) return { fired: false, at: now + againMs }
    await state.holdFingerprints([{ ...hold, inPlaceOf: holder.id }])
    return { fired: false, at: now }
  }

  return {
    ...limiter,
    async fire(requests) {
      if (state.mayKeepHolds !== true || policy.deduplicationWindowMs === undefined)
        return limiter.fire(requests)
      const asked = requests.map((request) => {
        const { notification, recipient } = request
        const print = printOf(notification as Notification)
        return print === undefined ? request : { notification, recipient, print }
      })
      const firings = await limiter.fire(asked)
      if (!firings.some(({ isDuplicate }) => isDuplicate)) return firings
      return Promise.all(
        firings.map((firing, index) =>
          firing.isDuplicate ? withheld(requests[index]!.notification as Notification, firing) : firing,
        ),
      )
    },
  }
}

const hasGone = (of: Notification | undefined): boolean =>
  of?.status === 'delivered' || of?.status === 'merged'
