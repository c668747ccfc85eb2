/** The limiter's state of one subject as it is read from the record, from which a lost subject is filled. Types alone. */
import type { RestoredEntry } from '@sluice/limits'

/** The facts of one subject on record. */
export interface RecoveredSubject {
  readonly entries: readonly RestoredEntry[]
  /** Fingerprints of what was accepted, with their instants. */
  readonly fingerprints: readonly { readonly fingerprint: string; readonly id: string; readonly at: number }[]
  /** Ids of notifications that wait and hold no instant. */
  readonly waitlist: readonly string[]
  /**
   * Ids of notifications that another process has the right to send. Their entries count as sent now; a state that has kept
   * what it knew of them goes by that.
   */
  readonly begun?: readonly string[]
  /** Some of those who wait may have an earlier instant, or hold none. */
  readonly isOutdated?: boolean
  /**
   * Only a part was read yet: all that counts for those who wait with an id below this one, and they hold no instant
   * that is later than what was read. Absent where all is there.
   */
  readonly before?: string
}
