/** A subject of the limits as memory knows it, beside the entries that the limiter holds. */
import type { BookedInstants } from './booked-instants.ts'
import type { Claims } from './fingerprint-claims.ts'

export interface Known {
  /** The number of `renew` calls before it was filled: a lower one than now's makes it outdated. */
  generation: number
  claims: Claims | undefined
  /** Reservations that lay in the future when they were made. */
  booked: BookedInstants | undefined
  /** Ids that wait without a reservation: as many as there are on record of the subject. */
  waitlist: Set<string> | undefined
  /** Since the hand came by. */
  touched: boolean
  /** See `RecoveredSubject`: what is known does for `advance` of those who wait before this id, and for nothing else. */
  before: string | undefined
}

/** True where nobody waits in the subject: its entries and fingerprints are all there is to know. */
export const canBePacked = ({ booked, waitlist, before, generation }: Known, ofNow: number): boolean =>
  booked === undefined && waitlist === undefined && before === undefined && generation === ofNow
