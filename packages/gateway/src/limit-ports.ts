/**
 * The port towards the limiter's state, which is a cache of facts in the store: who holds which instant in which
 * subject. `reserve`, `fire` and `cancel` are those of @sluice/limits; `pause`, `waiting` and `advance` let those who
 * wait move up before any newcomer. Instants are epoch milliseconds, durations milliseconds.
 */
import type { ForbiddenInterval, Limit, Decision as LimitDecision } from '@sluice/limits'

/** Whose count: the recipient, or another key that a limit names in `per`. */
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
  /** It waited before: a pause does not hold it up. */
  readonly waited?: boolean
}

/** Deduplication: one notification with this fingerprint within the window. */
export interface Claim {
  readonly subject: Subject
  readonly fingerprint: string
  readonly id: string
  readonly windowMs: number
  /** Only asks, and takes nothing. */
  readonly dry?: boolean
}

/** What the limits said; see `reserve` in @sluice/limits. */
export type Reservation = LimitDecision

/** One reservation that has become earlier in all of its subjects. */
export interface Advance {
  /** The earlier instant. */
  readonly at: number
  /** What the limits of each subject said of the first instant that was asked for. */
  readonly reservations: readonly Reservation[]
  /** Subjects in which the later place is free now and others wait; each is paused once more. */
  readonly freed: readonly Subject[]
}

export interface Firing {
  readonly fired: boolean
  readonly at: number
  /** The subject, where the place that it left is free and others wait there: paused, as by `cancel`. */
  readonly freed?: Subject
}

export interface LimitState {
  /** Resolves when none of the subjects is paused, but for what has waited before. */
  reserve(requests: readonly LimitRequest[]): Promise<readonly Reservation[]>
  /** The same answers; books nothing. */
  preview(requests: readonly LimitRequest[]): Promise<readonly Reservation[]>
  /** At the moment of handing over: counted as sent now, or booked anew at the instant answered. */
  fire(requests: readonly LimitRequest[]): Promise<readonly Firing[]>
  /** Counts them as sent now, unasked: they left later than they were fired. */
  force(requests: readonly Pick<LimitRequest, 'subject' | 'id' | 'rules'>[]): Promise<void>
  /**
   * Gives places back. Where others wait for an instant that is still to come, the subject is paused, so that no
   * newcomer takes the place before them: answers those subjects, each of which `resume` is to be called for.
   */
  cancel(requests: readonly Pick<LimitRequest, 'subject' | 'id'>[]): Promise<readonly Subject[]>
  /** Holds newcomers up in `reserve` and `preview` until `resume` was called as often. */
  pause(subjects: readonly Subject[]): Promise<void>
  resume(subjects: readonly Subject[]): Promise<void>
  /**
   * Puts ids on the waiting lists of their subjects, which hold no instant and wait for one all the same: for these,
   * too, a subject is paused when a place becomes free. `cancel`, a reservation that is held and `delist` take them off.
   */
  enlist(requests: readonly Pick<LimitRequest, 'subject' | 'id'>[]): Promise<void>
  delist(requests: readonly Pick<LimitRequest, 'subject' | 'id'>[]): Promise<void>
  /**
   * Those who hold an instant of the subject that is still to come, and those on its waiting list, by id: in the order
   * of acceptance.
   */
  waiting(subject: Subject): Promise<readonly string[]>
  /**
   * Books anew what one id holds in all of these subjects, if all of them admit it earlier than now held; else it
   * stays as it is. Never later, and never for an id that holds nothing any more.
   */
  advance(requests: readonly LimitRequest[]): Promise<Advance | undefined>
  /** Whether this is the first with its fingerprint within the window, which is then taken under the id. */
  claim(requests: readonly Claim[]): Promise<readonly boolean[]>
  /** Frees a fingerprint that the id had taken: what was cancelled or failed is not a first. */
  releaseFingerprints(requests: readonly Omit<Claim, 'windowMs' | 'dry'>[]): Promise<void>
  close(): Promise<void>
}
