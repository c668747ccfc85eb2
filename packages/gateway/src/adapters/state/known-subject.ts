/** A subject of the limits as memory knows it, beside the entries that the limiter holds. */
import type { RestoredEntry } from '@sluice/limits'
import type { FingerprintHold } from '../../ports.ts'
import type { BookedInstants } from './booked-instants.ts'

// ---- fingerprints
//
// Fingerprints of one recipient: the first notification with a fingerprint holds it for the window of deduplication.

/** The id that holds each fingerprint, and since when. */
export type FingerprintHolders = Map<string, { readonly id: string; readonly at: number }>

/** Above so many fingerprints those beyond their window are dropped. */
const holdersTidyAt = 64

/** Holds a fingerprint; false where another id holds it. */
export function holdFingerprint(
  holders: FingerprintHolders,
  { fingerprint, id, windowMs, dry, inPlaceOf }: Omit<FingerprintHold, 'subject'>,
  now: number,
): boolean {
  const first = holders.get(fingerprint)
  const isFree = first === undefined || first.id === id || first.id === inPlaceOf
  if (!isFree && now < first.at + windowMs) return false
  if (dry === true) return true
  if (holders.size >= holdersTidyAt) {
    for (const [key, held] of holders) if (held.at + windowMs <= now) holders.delete(key)
  }
  holders.set(fingerprint, { id, at: now })
  return true
}

// ---- the subject

export interface KnownSubject {
  /** The number of `renew` calls before it was filled: a lower one than now's makes it outdated. */
  generation: number
  fingerprints: FingerprintHolders | undefined
  /** Reservations that lay in the future when they were made. */
  booked: BookedInstants | undefined
  /** Ids that wait without a reservation: as many as there are on record of the subject. */
  waitlist: Set<string> | undefined
  /** True if it was used since the hand of its `SubjectCache` came by last. */
  touched: boolean
  /** See `RecoveredSubject`: what is known does for `advance` of those who wait before this id, and for nothing else. */
  before: string | undefined
}

/** True where nobody waits in the subject: its entries and fingerprints are all there is to know. */
export const canBePacked = ({ booked, waitlist, before, generation }: KnownSubject, ofNow: number): boolean =>
  booked === undefined && waitlist === undefined && before === undefined && generation === ofNow

// ---- entries that are read again
//
// Entries of a subject that is read again from the record, as this process knows them: a send or a new instant may not be
// on record yet, or may have been written after the record was read.

/** @param known the entries of the subject in memory; their streams are those of the rules before */
export function newestEntries(
  known: readonly RestoredEntry[],
  recorded: readonly RestoredEntry[],
): readonly RestoredEntry[] {
  const byId = new Map(known.map((entry) => [entry.id, entry]))
  return recorded.map((entry) => {
    const newer = byId.get(entry.id)
    return newer === undefined || entry.fired ? entry : { ...entry, at: newer.at, fired: newer.fired }
  })
}
