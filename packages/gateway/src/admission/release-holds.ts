/**
 * What a notification held and nobody needs any more: its instant in the limits, its place behind a tenant or module
 * limit, its fingerprint. Whoever ends one that has not been delivered gives these back here, once that is on record.
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

/** `held` as it was on record before it ended as `ended`. Nothing is to be given back by what was delivered. */
export type ReleaseHolds = (held: Notification, ended: Notification['status']) => Promise<void>

export function createReleaseHolds(options: ReleaseHoldsOptions): ReleaseHolds {
  const { limiter, state, recipients, policy, throttle } = options

  return async (held, ended) => {
    // What failed has reached its provider: its call counts, but the same may be said again.
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
