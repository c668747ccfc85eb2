/**
 * Releases the holds of a notification that ended undelivered: its reservation in the limits, its place in the throttle
 * queue, its fingerprint. Called once the end is on record.
 */

import type { Notification } from '../model.ts'
import type { Policy } from '../policy/policy.ts'
import type { LimitState } from '../ports.ts'
import type { RecipientLimiter, Recipients } from '../stages.ts'
import { fingerprintHoldOf } from './duplicates.ts'
import type { TenantThrottle } from './tenant-throttle/tenant-throttle.ts'

export interface ReleaseHoldsOptions {
  readonly limiter: Pick<RecipientLimiter, 'cancel'>
  readonly state: Pick<LimitState, 'releaseFingerprints'>
  readonly recipients: Recipients
  readonly policy: Policy
  readonly throttle: Pick<TenantThrottle, 'giveBack'>
}

/** Releases the holds of `held`, the record before it ended as `ended`. A delivered notification keeps its holds. */
export type ReleaseHolds = (held: Notification, ended: Notification['status']) => Promise<void>

export function createReleaseHolds(options: ReleaseHoldsOptions): ReleaseHolds {
  const { limiter, state, recipients, policy, throttle } = options

  return async (held, ended) => {
    // A failed notification reached its provider: its send counts in the limits, but it is no duplicate any more.
    if (ended === 'cancelled' || ended === 'suppressed' || ended === 'expired') {
      await throttle.giveBack([held])
      await limiter.cancel([
        { notification: held, recipient: await recipients.find(held.tenant, held.to.id) },
      ])
    }
    if (ended === 'cancelled' || ended === 'suppressed' || ended === 'failed') {
      await state.releaseFingerprints([fingerprintHoldOf(policy, held)])
    }
  }
}
