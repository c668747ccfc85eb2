/**
 * The port towards the limiter's state, which is a cache of facts in the store: the instants that notifications hold
 * in each subject. `reserve`, `fire` and `cancel` are those of @sluice/limits; `pause`, `waiting` and `advance` let
 * waiting notifications move up before any newcomer. Instants are epoch milliseconds, durations milliseconds.
 */
import type { ForbiddenInterval, Limit, Decision as LimitDecision } from '@sluice/limits'

/** The key of a count: the recipient, or another key that a limit names in `per`. */
export interface Subject {
  readonly key: string
  readonly tenant: string
  readonly recipient?: string
}

export interface LimitRequest {
  readonly subject: Subject
  readonly id: string
  readonly rules: readonly Limit[]
  readonly notBefore?: number
  readonly forbidden?: readonly ForbiddenInterval[]
  readonly horizonMs?: number
  /** True if it waited before: a pause does not hold it up. */
  readonly waited?: boolean
  /** True if the instant that it held has come: as at `fire`, only what has left stands in its way. */
  readonly inTurn?: boolean
  /** For `advance`, the instant that is on record, epoch ms. */
  readonly promisedAt?: number
}

/** A slot to release. */
export interface SlotRelease extends Pick<LimitRequest, 'subject' | 'id'> {
  /**
   * The slot stays where the id was fired later than `after`: another writer has sent the notification meanwhile, and
   * that counts. Absent: the slot is released in any case.
   */
  readonly unlessFired?: { readonly after: number; readonly rules: readonly Limit[] }
}

/** A deduplication request: one notification with this fingerprint is allowed within the window. */
export interface FingerprintHold {
  readonly subject: Subject
  readonly fingerprint: string
  readonly id: string
  readonly windowMs: number
  /** Checks only, and holds nothing. */
  readonly dry?: boolean
}

/** The decision of the limits; see `reserve` in @sluice/limits. */
export type Reservation = LimitDecision

/** A reservation that has become earlier in all of its subjects, or is later than it was promised. */
export interface Advance {
  /** The instant that it holds now. */
  readonly at: number
  /** The instant of the slot that it left. */
  readonly from: number
  /** The decision of each subject's limits for the first instant that was requested. */
  readonly reservations: readonly Reservation[]
  /** Subjects in which the later slot is free now and other notifications wait; each is paused once more. */
  readonly freed: readonly Subject[]
}

export interface Firing {
  readonly fired: boolean
  readonly at: number
  /** The subject, where the released slot is free and other notifications wait there: paused, as by `cancel`. */
  readonly freed?: Subject
}

export interface LimitState {
  /** Reserves slots. Resolves when none of the subjects is paused, except for requests that have waited before. */
  reserve(requests: readonly LimitRequest[]): Promise<readonly Reservation[]>
  /** Returns the same decisions as `reserve` and reserves nothing. */
  preview(requests: readonly LimitRequest[]): Promise<readonly Reservation[]>
  /**
   * Counts the notifications as sent now at the moment of handing over, or reserves anew at the instant in the
   * result.
   */
  fire(requests: readonly LimitRequest[]): Promise<readonly Firing[]>
  /** Counts the notifications as sent now without checking limits: they left later than they were fired. */
  force(requests: readonly Pick<LimitRequest, 'subject' | 'id' | 'rules'>[]): Promise<void>
  /**
   * Counts notifications as sent now that the record counts already, because another process may have sent them. A subject
   * that is not filled yet stays so: it is filled from the record, when it is touched.
   */
  recount(requests: readonly Pick<LimitRequest, 'subject' | 'id' | 'rules'>[]): Promise<void>
  /**
   * Releases slots. Where other notifications wait for an instant that is still to come, the subject is paused, so
   * that no newcomer takes the slot before them. Returns these subjects; `resume` must be called for each of them.
   */
  cancel(requests: readonly SlotRelease[]): Promise<readonly Subject[]>
  /** Holds up newcomers in `reserve` and `preview` until `resume` was called as often. */
  pause(subjects: readonly Subject[]): Promise<void>
  resume(subjects: readonly Subject[]): Promise<void>
  /**
   * Books newcomers of a subject no earlier than the latest instant that these ids hold, until it is called again: no
   * newcomer overtakes one of them while they move up. No ids end it.
   */
  queueBehind(subject: Subject, ids: readonly string[]): Promise<void>
  /**
   * Adds ids to the waiting lists of their subjects. They hold no instant but wait for one: for them, too, a subject
   * is paused when a slot becomes free. `cancel`, a held reservation and `delist` remove them.
   */
  enlist(requests: readonly Pick<LimitRequest, 'subject' | 'id'>[]): Promise<void>
  delist(requests: readonly Pick<LimitRequest, 'subject' | 'id'>[]): Promise<void>
  /**
   * Returns the ids that hold a future instant of the subject and the ids on its waiting list, in the order of
   * acceptance. With `first` a subject that is being filled may answer the first of them alone, which `advance` knows:
   * asked again without it, it answers all.
   */
  waiting(subject: Subject, asked?: { readonly first?: boolean }): Promise<readonly string[]>
  /**
   * Reserves anew the slots that one id holds in all of these subjects, if all of them admit it earlier; otherwise
   * the reservation stays, and is returned where it is later than the promise. Never later than it was, and never for
   * an id that holds nothing any more.
   */
  advance(requests: readonly LimitRequest[]): Promise<Advance | undefined>
  /** Holds each fingerprint under its id for the window; false where another notification holds it already. */
  holdFingerprints(requests: readonly FingerprintHold[]): Promise<readonly boolean[]>
  /** Releases fingerprints that the ids hold: a cancelled or failed notification does not block a duplicate. */
  releaseFingerprints(requests: readonly Omit<FingerprintHold, 'windowMs' | 'dry'>[]): Promise<void>
  /**
   * The rules have changed: each subject is filled again from the record when it is touched next. What this process
   * knows and the record does not yet (sends that were fired, fingerprints) is kept.
   */
  renew(): void
  /** Puts the instants of committed notifications in the state, without asking the limits. */
  adopt(requests: readonly AdoptedReservation[]): Promise<void>
  close(): Promise<void>
}

/** A reservation that is on record. */
interface AdoptedReservation extends Pick<LimitRequest, 'subject' | 'id' | 'rules'> {
  readonly at: number
}
