/**
 * The ports to the limiter's state: the limits of recipients, the record from which lost state is rebuilt, the planning of
 * notifications that become late, and the numbers of the servers that hold the state.
 */
import type { ForbiddenInterval, Limit, Decision as LimitDecision, RestoredEntry } from '@sluice/limits'
import type { Notification } from '../model.ts'

// ---- limits of recipients
//
// The port towards the limiter's state, which is a cache of facts in the store: the instants that notifications hold
// in each subject. `reserve`, `fire` and `cancel` are those of @sluice/limits; `pause`, `waiting` and `advance` let
// waiting notifications move up before any newcomer. Instants are epoch milliseconds, durations milliseconds.

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
  /** For `fire`: nothing is counted where another notification holds it. Limits in memory do not look at it. */
  readonly print?: HeldPrint
}

/** The fingerprint that a notification took when it was accepted. */
export interface HeldPrint extends Pick<FingerprintHold, 'fingerprint' | 'windowMs'> {
  /**
   * Epoch ms. Another notification that took the fingerprint a window or more before or after this instant is no
   * duplicate: both may leave.
   */
  readonly acceptedAt: number
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
  /** Takes the fingerprint where this id holds it: its notification was never accepted. */
  readonly inPlaceOf?: string
}

/** The notification that holds a fingerprint, and the instant since when, epoch ms. */
interface FingerprintHolder {
  readonly id: string
  readonly since: number
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
  /** Another notification holds its fingerprint: the server lost it before both were on record. */
  readonly isDuplicate?: true
}

export interface LimitState {
  /**
   * True where a hold may stay that nobody releases: it stands in a server, and the process that took it has died, or could
   * not reach the server any more.
   */
  readonly mayKeepHolds?: true
  /** Reserves slots. Resolves when none of the subjects is paused, except for requests that have waited before. */
  reserve(requests: readonly LimitRequest[]): Promise<readonly Reservation[]>
  /** Returns the same decisions as `reserve` and reserves nothing. */
  preview(requests: readonly LimitRequest[]): Promise<readonly Reservation[]>
  /**
   * Counts the notifications as sent now at the moment of handing over, or reserves anew at the instant in the
   * result.
   */
  fire(requests: readonly LimitRequest[]): Promise<readonly Firing[]>
  /**
   * Counts the notifications as sent without checking limits, because they leave later than they were fired: now, or at `at`
   * where that is later, epoch ms.
   */
  force(
    requests: readonly (Pick<LimitRequest, 'subject' | 'id' | 'rules'> & { readonly at?: number })[],
  ): Promise<void>
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
   * newcomer overtakes one of them while they move up. No ids end it. True if each of them holds an instant.
   */
  queueBehind(subject: Subject, ids: readonly string[]): Promise<boolean>
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
   * an id that holds nothing any more. A newcomer stays where others move up in one of the subjects: they have its turn, too.
   */
  advance(
    requests: readonly LimitRequest[],
    asked?: { readonly isNewcomer?: boolean },
  ): Promise<Advance | undefined>
  /**
   * Returns the latest instant that one of these ids has reserved, also one that has passed; undefined where none has, or
   * where it is not known: the state has lost it, or the subject has very many entries.
   */
  reservedAt(requests: readonly Pick<LimitRequest, 'subject' | 'id'>[]): Promise<number | undefined>
  /**
   * Plans again, around the instants that these ids hold, those that wait behind them: an id that could not leave at its
   * instant took the next one beside what has left alone, and that may be promised to another.
   */
  planAround(requests: readonly Pick<LimitRequest, 'subject' | 'id'>[]): Promise<void>
  /** Holds each fingerprint under its id for the window; false where another notification holds it already. */
  holdFingerprints(requests: readonly FingerprintHold[]): Promise<readonly boolean[]>
  /** Returns who holds a fingerprint; undefined where nobody does. */
  fingerprintHolder(
    of: Pick<FingerprintHold, 'subject' | 'fingerprint'>,
  ): Promise<FingerprintHolder | undefined>
  /** Releases fingerprints that the ids hold: a cancelled or failed notification does not block a duplicate. */
  releaseFingerprints(requests: readonly Omit<FingerprintHold, 'windowMs' | 'dry'>[]): Promise<void>
  /**
   * The rules have changed: each subject is filled again from the record when it is touched next. What this process
   * knows and the record does not yet (sends that were fired, fingerprints) is kept.
   */
  renew(): void
  /**
   * Puts the instants of committed notifications in the state, without asking the limits. With `keepsLater` one that holds
   * its instant, or a later one, keeps it. Returns which of them were put.
   */
  adopt(
    requests: readonly AdoptedReservation[],
    asked?: { readonly keepsLater?: boolean },
  ): Promise<readonly boolean[]>
  close(): Promise<void>
}

/** A reservation that is on record. */
interface AdoptedReservation extends Pick<LimitRequest, 'subject' | 'id' | 'rules'> {
  readonly at: number
}

// ---- planning late notifications again
//
// The port by which notifications that become late while a gateway runs are planned again: their subjects' instants in
// the limiter's state. Instants are epoch milliseconds.

/** The entries of subjects, by the keys of these. */
export type KnownEntries = ReadonlyMap<string, readonly RestoredEntry[]>

/** The instants of subjects in the limiter's state. */
export interface SubjectEntries {
  /** Returns the entries of a subject, which is filled from the record where it is not known. */
  read(subject: Subject): Promise<readonly RestoredEntry[]>
  /** Returns those of all of them as they are now, by their keys; without the subjects that are not known. */
  peek(subjects: Iterable<Subject>): KnownEntries | Promise<KnownEntries>
  /**
   * Holds other instants for notifications, without asking the limits; one that stands elsewhere than it was peeked at
   * keeps its instant. Returns the subjects in which notifications wait, paused: `resume` must be called for each of them.
   */
  move(moves: readonly HeldMove[]): readonly Subject[] | Promise<readonly Subject[]>
}

/** A notification that holds another instant from now on. */
export interface HeldMove {
  readonly id: string
  readonly at: number
  readonly subjects: readonly { readonly subject: Subject; readonly streams: readonly string[] }[]
}

/** A subject whose limits refused notifications at their instants. */
export interface LateSubject {
  readonly subject: Subject
  /** The ids that were refused: what they hold is no promise. */
  readonly refused: ReadonlySet<string>
  /** The ids that keep the instants that they hold, behind all that were promised one before now. @defaultValue none */
  readonly kept?: ReadonlySet<string>
}

/** Plans a subject again. Never rejects: without a plan each keeps what it holds. */
export type PlanLate = (late: LateSubject, entries: SubjectEntries) => Promise<void>

// ---- rebuilding the state
//
// The store's port for rebuilding limiter state; the store answers it with `admissions` and `inThrottleQueue`.

/** The fields that limits select and count by. */
export type Countable = Pick<
  Notification,
  'tenant' | 'module' | 'to' | 'channel' | 'category' | 'priority' | 'template' | 'actor' | 'actors'
>

/** A notification from which limiter state is rebuilt: it was sent, may have been sent, or holds an instant. */
export type Admission = Pick<
  Notification,
  | 'id'
  | 'tenant'
  | 'module'
  | 'to'
  | 'channel'
  | 'category'
  | 'priority'
  | 'template'
  | 'actor'
  | 'actors'
  | 'status'
  | 'dueAt'
  | 'createdAt'
  | 'firedAt'
  | 'suspects'
  | 'fingerprint'
  | 'undecided'
  | 'expiresAt'
  | 'digestId'
> & {
  /**
   * The instant at which it counted for the limits of its tenant and module, if it did: see store/admission.ts.
   */
  readonly countedAt?: number
  /** The slot in the throttle queue that it was promised, while it stands there. */
  readonly promisedAt?: number
  /** The policy version under which it was last decided. */
  readonly policyVersion: string
}

export interface AdmissionQuery {
  readonly tenant: string
  /** Absent: all recipients of the tenant, except notifications in a throttle queue (`inThrottleQueue`). */
  readonly recipient?: string
  /**
   * Selects notifications created, sent or due at this instant or later; for a tenant, those created or admitted
   * through its limits since.
   */
  readonly since: number
  /** The maximum number of notifications, newest first. */
  readonly limit: number
}

/** Selects what the limits of a subject count: what left since, may have left, or waits. */
export interface CountedQuery {
  readonly tenant: string
  /** @defaultValue the whole tenant */
  readonly recipient?: string
  /** Selects what left at this instant or later, however long ago it was created. */
  readonly since: number
  /**
   * Selects what the limits of a tenant and its modules count: every notification that was created since, or whose turn
   * came since, whatever became of it. Only for a tenant. @defaultValue false
   */
  readonly accepted?: boolean
  /**
   * Selects only what counts near the present: what left since `from` or may have left, and what waits and is due until
   * `to`; of what is due later the first of each page. Epoch ms. Only for a tenant, without `accepted`.
   * @defaultValue all
   */
  readonly within?: { readonly from: number; readonly to: number }
  /** The `nextCursor` of the page before. */
  readonly cursor?: string
  /** The number of rows that a page examines: it may return fewer, even none. */
  readonly limit: number
}

// ---- numbering its servers
//
// The port that numbers the servers of limiter state. A value in a server counts only where it bears the number under which
// the server is registered: after a restart, a promotion or a failback it bears another one, and is unknown. Unknown is
// not empty: the value is filled from the record before anything is decided.

/** A server in one of its lives: a restart changes the run id, a promotion the replication id. */
export interface ServerLife {
  /** The address, host and port. */
  readonly node: string
  readonly runId: string
  readonly replicationId: string
}

/** The place of the keys that count the limits, as a process that registers a server was told it. */
interface LimiterPlace {
  /** The keys, and the database or the kind of cluster, in words: two of them are never mistaken for each other. */
  readonly keyspace: string
  /** The addresses of all servers that are one place with the registered one. */
  readonly masters: readonly string[]
}

/** A life of a server, and the place to which it belongs. */
export interface PlacedLife extends ServerLife {
  readonly place: LimiterPlace
}

export interface Registrations {
  /**
   * Returns the number of this life: the one it has while it is the newest of its node, under whatever names processes ask
   * that; else the next one. No number is given to two lives, in no process of the fleet. Rejects with STORE_UNAVAILABLE,
   * and with STATE_UNAVAILABLE while another process keeps the limits, or running ones count them in another place.
   */
  register(life: PlacedLife): number | Promise<number>
}

/** Registrations that are on record for several processes. */
export interface NewestRegistrations extends Registrations {
  /** Reads the newest registration of each server, by its node. Rejects with STORE_UNAVAILABLE. */
  newest(): Promise<ReadonlyMap<string, number>>
  /**
   * Gives all servers other numbers: each is unknown until it is registered again. A server whose number is so new that
   * nothing was filled under it keeps that. Rejects with STORE_UNAVAILABLE.
   */
  renumber(): Promise<void>
}

// ---- keeping the limits while their server is away
//
// The port by which processes agree that one of them keeps the limits of all in its memory: every one has pledged before to
// ask no server until it has registered one again. No registration succeeds while another process keeps them.

/** The answer to a pledge. */
export interface StandIn {
  /** The number under which this process keeps the limits; undefined where it does not. */
  readonly number: number | undefined
  /** The process that keeps them. */
  readonly keeper: string | undefined
  /** True if another living process has not pledged: it reaches a server, or has not missed it yet. */
  readonly isReachable: boolean
}

/** Categories that are shared, or all but these. */
export interface SharedCategories {
  readonly categories: readonly string[]
  readonly areListed: boolean
}

export interface Keeping {
  /**
   * Pledges that this process asks no server before it registers one, and keeps the limits where all have pledged and none
   * keeps them. Asked again it answers who keeps them now. Rejects with STORE_UNAVAILABLE.
   */
  standIn(): Promise<StandIn>
  /** Ends the keeping by this process: nothing that it has allowed is under way any more. */
  stepDown(): Promise<void>
  /**
   * Frees notifications on record that this process holds and has not begun to send, of shared categories and critical ones,
   * for the process that keeps the limits; answers some of their ids, earliest due first.
   */
  handOver(shared: SharedCategories): Promise<readonly string[]>
}
