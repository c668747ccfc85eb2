/**
 * What a notification held and nobody needs any more: its instant in the limits, its place behind a tenant or module
 * limit, its fingerprint. Whoever ends one that has not been delivered gives these back here, once that is on record.
 */

import type { Book, People } from '../doors.ts'
import type { Notification } from '../model.ts'
import type { Policy } from '../policy/policy.ts'
import type { LimitState } from '../ports.ts'
import { claimOf } from './duplicates.ts'
import type { PlatformLine } from './platform.ts'

export interface GivingBackOptions {
  readonly book: Pick<Book, 'cancel'>
  readonly state: Pick<LimitState, 'unclaim'>
  readonly people: People
  readonly policy: Policy
  readonly platform: Pick<PlatformLine, 'giveBack'>
}

/** `held` as it was on record before it ended as `ended`. Nothing is to be given back by what was delivered. */
export type GiveBack = (held: Notification, ended: Notification['status']) => Promise<void>

export function createGivingBack(options: GivingBackOptions): GiveBack {
  const { book, state, people, policy, platform } = options

  return async (held, ended) => {
    // What failed has reached its provider: its call counts, but the same may be said again.
    if (ended === 'cancelled' || ended === 'suppressed' || ended === 'expired') {
      await platform.giveBack([held])
      await book.cancel([{ notification: held, person: await people.find(held.tenant, held.to.id) }])
    }
    if (ended === 'cancelled' || ended === 'suppressed' || ended === 'failed') {
      await state.unclaim([claimOf(policy, held)])
    }
  }
}
