/**
 * The interfaces between the stages: intake hands drafts to admission, scheduling and dispatch call admission and
 * each other, and all of them write through the ledger. No stage knows another's inside; gateway.ts joins them.
 */
import type {
  Decision,
  Digest,
  Draft,
  Job,
  Notification,
  Payload,
  Recipient,
  Refusal,
  SharedContent,
  Status,
  TimelineEvent,
} from './model.ts'
import type { Firing, LimitRequest } from './ports/limiter.ts'
import type { ReportedOf, StoredRecipient } from './ports/recipients.ts'
import type { Occupancy, Room, TakenRoom } from './ports/tenants.ts'
import type {
  Change,
  CommitResult,
  Countable,
  DeadLetterQuery,
  HoldRecord,
  JobWork,
  RecipientKey,
  Reservation,
  RightRequest,
  Store,
  StoredAnswer,
  Subject,
} from './ports.ts'

export type { Room } from './ports/tenants.ts'
export type {
  AccountChanged,
  AccountDetails,
  AccountMinute,
  AccountPast,
  AccountReport,
  AccountStatus,
  OutBecause,
  PoolCounts,
  PoolDetails,
  PoolLoad,
  PoolReport,
  PoolsView,
  WindowUse,
} from './reports.ts'

export interface Caller {
  readonly tenant: string
  readonly module: string
}

/** A draft that was accepted. */
export interface Admitted {
  readonly notification: Notification
  /** The tenant or module limit that delays it; the client gets 429. */
  readonly queuedBehind?: 'tenant' | 'module'
}

export interface AdmitRequest {
  readonly caller: Caller
  readonly drafts: readonly Draft[]
  /** Builds the stored answer for retries of the request; it is written in the commit that accepts. */
  readonly answer?: (results: readonly Admitted[]) => StoredAnswer
  /**
   * The job to which the drafts belong moves on in the same commit. The drafts have held room in the queue since the
   * job was opened.
   */
  readonly job?: { readonly before: Job; readonly after: Job }
}

export interface Gate {
  /**
   * Evaluates and counts the drafts, and resolves when everything accepted is on disk. Throws QUEUE_FULL,
   * STORE_UNAVAILABLE (also where the job changed concurrently), STATE_UNAVAILABLE.
   */
  admit(request: AdmitRequest): Promise<readonly Admitted[]>
  /** Returns the decision that `admit` would make now; consumes nothing. */
  preview(caller: Caller, draft: Draft): Promise<{ readonly draft: Draft; readonly decision: Decision }>
  /** Cancels a waiting notification and releases its slots. Throws NOT_FOUND, NOT_CANCELLABLE. */
  cancel(tenant: string, id: string): Promise<void>
  /**
   * Stores a recipient and re-evaluates the waiting notifications. False where another process has written the recipient
   * since the version that it names. Throws NOT_FOUND where the recipient of what was reported was erased since.
   */
  saveRecipient(recipient: StoredRecipient, reportedOf?: readonly ReportedOf[]): Promise<boolean>
  /** The notification's current place in its throttle queue, which moves up; undefined where it stands in none. */
  placeOf(notification: Notification): Promise<number | undefined>
  /** The usage of each limit for a recipient. */
  usage(tenant: string, recipient: string): Promise<readonly LimitUsage[]>
  /** Evaluates notifications that were accepted undecided and are now due. */
  resume(notifications: readonly Notification[]): Promise<void>
  /** Evaluates queued notifications whose turn in a tenant's throttle queue has come before the instant on record. */
  promote(tenant: string, ids: readonly string[]): Promise<void>
  /** Closes a digest: sends it, sends its items one by one, or leaves it open until a limit admits it. */
  closeDigest(digest: Digest): Promise<void>
  /** Redrives dead letters. */
  redrive(request: RedriveRequest): Promise<RedriveResult>
}

/** A filter for the dead letters that an operator wants to redrive; a letter must match all of it. */
export interface RedriveRequest extends Omit<DeadLetterQuery, 'limit' | 'cursor' | 'priority'> {
  /** Redrives every match, calls of unknown outcome included. A filter by channel or tenant alone leaves these out. */
  readonly all?: boolean
  /** Counts the matches and redrives nothing. */
  readonly dryRun?: boolean
  /** Redrives the oldest matches, at most so many. @defaultValue all */
  readonly limit?: number
  /** The caller's tenant: ids that are no dead letters are looked up there, where the filter names no tenant. */
  readonly caller?: string
}

/** A dead letter that was not redriven. */
export interface RedriveLeft {
  readonly notificationId: string
  /** `unserved`: no pool serves its channel. */
  readonly why: 'not_dead' | 'expired' | 'cancelled' | 'queue_full' | 'unserved'
}

export interface RedriveResult {
  readonly redriven: number
  readonly left: readonly RedriveLeft[]
  /** Where a limit was given: true if further letters match. */
  readonly more?: boolean
}

/** A batch for the background: its message, its recipients, and the recipients that are already refused. */
export interface OpenJob {
  readonly caller: Caller
  readonly work: JobWork
  readonly refused: readonly Refusal[]
  /** The size of the request in bytes. */
  readonly bytes?: number
  /** Builds the stored answer for retries of the request; it is written in the commit that opens the job. */
  readonly answer?: (job: Job) => StoredAnswer
}

export interface Jobs {
  /**
   * Resolves when the job is on disk. Throws QUEUE_FULL, STORE_UNAVAILABLE, and IDEMPOTENCY_IN_PROGRESS where its
   * stored answer exists already.
   */
  open(request: OpenJob): Promise<Job>
  /**
   * Cancels a job: accepts no more recipients and cancels its waiting notifications. Throws NOT_CANCELLABLE where all
   * of them have left or ended.
   */
  cancel(job: Job): Promise<void>
  /** The number of running jobs. */
  running(): number
}

/** One window of the limits of a tenant and its module. */
export interface ThrottleUsage {
  readonly of: 'tenant' | 'module'
  readonly window: string
  readonly windowMs: number
  readonly max: number
  /** The remaining capacity, without notifications that are queued for later. */
  readonly remaining: number
  /** The instant at which the oldest entry leaves the window; now where it is empty. */
  readonly resetAt: number
}

export interface LimitUsage {
  readonly limit: string
  readonly window: string
  readonly used: number
  readonly max: number
  readonly remaining: number
  readonly reserved: number
  readonly freesAt: number | null
}

/** The recipients of a batch: `null` for an unknown one, an error for a damaged row. */
type FoundRecipients = readonly (Recipient | null | Error)[]

/** The cache of recipients; changed only through `Gate.saveRecipient`. */
export interface Recipients {
  /** Answers synchronously from the cache; `null` for an unknown recipient. */
  cached(tenant: string, recipient: string): Recipient | null | undefined
  find(tenant: string, recipient: string): Promise<Recipient | null>
  /**
   * Finds the recipients of a batch, in the order of the keys: at once where all of them are cached, else with one
   * question to the store. A recipient whose row is damaged is answered by the error of the row.
   */
  findAll(keys: readonly RecipientKey[]): FoundRecipients | Promise<FoundRecipients>
  /** Removes a recipient: the next read goes to the store. */
  forget(tenant: string, recipient: string): void
  /** Counts the changes of recipients: if it is the same as before, no recipient has changed meanwhile. */
  readonly changes: number
}

/** Shared contents that are kept apart from their notifications (content.ts). */
export interface Contents {
  /**
   * The whole content of a notification, synchronously where it is cached. Throws NOT_FOUND where it is gone from the
   * record.
   */
  of(notification: Notification): Payload | Promise<Payload>
  find(tenant: string, id: string): SharedContent | Promise<SharedContent>
  /** Caches content that was just written. */
  keep(content: SharedContent): void
  /** Drops content that is no longer on record. */
  forget(id: string): void
  /** Drops all cached contents of a tenant, some of which are no longer on record. */
  forgetTenant(tenant: string): void
}

/** A request to reserve a slot for one notification. */
export interface ReservationRequest extends Pick<LimitRequest, 'print'> {
  readonly notification: Countable & Pick<Notification, 'id'>
  readonly recipient: Recipient | null
  readonly notBefore?: number
  readonly horizonMs?: number
  /** All limits wait, also those that would drop, digest or fall back. @defaultValue false */
  readonly waitOnly?: boolean
  /** It waited before, and is not held up while other notifications of its subjects move up. @defaultValue false */
  readonly waited?: boolean
  /** The instant that it held has come: those that wait behind it do not stand in its way. @defaultValue false */
  readonly inTurn?: boolean
  /** The instant on record, epoch ms: `advance` answers a later one that is held. */
  readonly promisedAt?: number
}

/** A notification and its recipient, by whose limits it counts. */
type Limited = Pick<ReservationRequest, 'notification' | 'recipient'>
type RecordedRequest = Limited & { readonly notification: Pick<Notification, 'dueAt'> }

/** A notification whose slots are released unless it was fired later than its `firedAt`. */
export interface ReleaseRequest extends Pick<ReservationRequest, 'recipient'> {
  readonly notification: ReservationRequest['notification'] & Pick<Notification, 'firedAt'>
}

/**
 * Applies the policy's limits to notifications: it finds a notification's rules, subjects and quiet hours, and
 * evaluates all of its subjects together.
 */
export interface RecipientLimiter {
  reserve(reservationRequests: readonly ReservationRequest[]): Promise<readonly Reservation[]>
  preview(reservationRequests: readonly ReservationRequest[]): Promise<readonly Reservation[]>
  /** Counts the notification as sent at the moment of handing over, or reserves anew at `at`, or says what to suppress. */
  fire(reservationRequests: readonly ReservationRequest[]): Promise<readonly Omit<Firing, 'freed'>[]>
  /** Counts a notification that was fired before as sent now, or at `at` where that is later: it leaves only then. */
  countAsSent(request: Limited & { readonly at?: number }): Promise<void>
  /** Counts a refused notification where limits count refusals; false where none does. */
  countRefusal(request: Limited): Promise<boolean>
  /** Undoes `countRefusal`, because the refusal was not written. */
  forgetRefusal(request: Limited): Promise<void>
  /** Releases the slots, and lets the notifications that wait for them move up. */
  cancel(requests: readonly Limited[]): Promise<void>
  /**
   * Releases slots whose change was not written. What another writer has sent meanwhile, later than the notification's
   * own `firedAt`, stays counted.
   */
  takeBack(releaseRequests: readonly ReleaseRequest[]): Promise<void>
  /**
   * Adds a notification to the waiting lists: it holds no instant, and is evaluated again when a slot of its subjects
   * becomes free.
   */
  enlist(requests: readonly Limited[]): Promise<void>
  /**
   * Releases a slot while another one is searched for, and holds up newcomers meanwhile. What another writer has sent
   * meanwhile stays counted, as in `takeBack`. The returned function is called with whether that slot is free now, and
   * lets waiting notifications move up if it is.
   */
  lift(releaseRequest: ReleaseRequest): Promise<(isFree: boolean) => Promise<void>>
  /** Returns the instant that is reserved for it, by whichever process; undefined where none is, or where it is not known. */
  reservedAt(request: Limited): Promise<number | undefined>
  /** Plans again, around the instant that it holds, those that wait behind one that was held up at its instant. */
  planAround(request: Limited): Promise<void>
  /** Holds the `dueAt` of notifications that were committed beside a reload of the policy, and lets them move up. */
  adopt(recorded: readonly RecordedRequest[]): Promise<void>
  /** Holds the `dueAt` of notifications whose limits hold an earlier instant; returns all subjects, and where that was so. */
  putBack(recorded: readonly RecordedRequest[]): Promise<readonly { subject: Subject; isPut: boolean }[]>
  /**
   * Reserves a held notification anew where its limits admit it earlier, or answers the instant that it holds where that is
   * later than `promisedAt`; undefined where it stays.
   */
  advance(reservationRequest: ReservationRequest): Promise<Reservation | undefined>
}

/** Schedules work for later instants. */
export interface Scheduler {
  /**
   * Places notifications that were just written: into the queue when due, in memory when due soon; otherwise they
   * stay in the store.
   */
  place(notifications: readonly Notification[]): void
  /**
   * Places a notification that left the queue, could not be sent and is on record again, at the front of its
   * priority.
   */
  placeFirst(notification: Notification): void
  /** Returns a notification held in memory to the queue at a near instant; the record stays as it is. */
  postpone(notification: Notification, at: number): void
  /** Schedules the close of a digest. */
  noteDigest(closesAt: number): void
  /**
   * Recovers a notification that was taken out of memory and whose change was refused. A concurrent writer usually
   * moved it on and takes care of it; otherwise it is placed as the record says, `retryMs` later where it is due: half
   * a second unless given. Never throws.
   */
  recover(notification: Pick<Notification, 'tenant' | 'id'>, retryMs?: number): Promise<void>
}

/** The one way to write: commits, keeps the counts and the live versions, and informs the listeners. */
export interface Ledger {
  commit(change: Change): Promise<CommitResult>
  /**
   * Marks a notification as held in this process's memory, on its way out. A version that a change under way replaces is
   * not held: its writer takes care of it.
   */
  hold(notification: Notification): void
  release(notification: Notification): void
  /**
   * Watches for moves of a notification while its record is being read. The returned function ends the watch; true if it
   * has moved since, so that what was read may be outdated.
   */
  watch(id: string): () => boolean
  /** True if it is held, and this is still its current version: a cancelled or re-evaluated one is not. */
  isCurrent(notification: Notification): boolean
  /**
   * Gives the right to hand held notifications to their providers. A notification that has it is `sending`: it is
   * neither cancelled nor expired nor decided anew. Its settlement ends the right, or `mark` as queued. Answers without
   * a promise where no engine across a network must be asked.
   */
  begin(of: readonly RightRequest[]): Begun | Promise<Begun>
  /** Records, without a commit, that a held notification is queued, or is handed over. False when it is not current. */
  mark(notification: Notification, status: 'queued' | 'sending'): boolean
  /** The live state of a notification: events and status known in memory beyond the record. */
  live(id: string): Live | undefined
  /** True if a held notification has been handed over, or is now, and its result is not on record. */
  isSending(): boolean
  /** The number of held notifications by tenant, for tenants that have any. */
  held(): ReadonlyMap<string, number>
  subscribe(listener: (happening: Happening) => void): () => void
  /** The number of notifications on record by status. */
  counts(): Readonly<Record<Status, number>>
  /** Prunes as `Store.prune` does, and updates the counts. Returns the number of rows. */
  prune(before: Parameters<Store['prune']>[0]): Promise<number>
  /** The `createdAt` of the oldest notification on record, as of the last prune; undefined where none is known. */
  oldestAt(): number | undefined
  /** The number of notifications pruned since the process began. */
  pruned(): number
  /**
   * Takes room within the bounds of a tenant (architecture's invariant 7) or throws QUEUE_FULL. A promise where other
   * processes must be asked.
   */
  takeRoom(tenant: string, room: Room): TakenRoom | Promise<TakenRoom>
  occupancy(tenant: string): Occupancy
}

/** The rights to send that `Ledger.begin` gave. */
export interface Begun {
  /** Ids of notifications without the right: they are no longer current, because they have gone another way. */
  readonly refused: ReadonlySet<string>
  /** Ids of notifications whose recipient another process has changed: to be read again before the call. */
  readonly outdated?: ReadonlySet<string>
  /** The time of `Clock.monotonic` after which no call may be made under these rights. */
  readonly until: number
}

export interface Live {
  readonly notification: Notification
  readonly status: Status
  /** Events that are not yet on record; written with the next move. */
  readonly events: readonly TimelineEvent[]
}

/** A state transition that is on record. */
export interface Happening {
  readonly notification: Notification
  /** The notification before the transition; absent for an acceptance. */
  readonly before?: Notification
  readonly events: readonly TimelineEvent[]
}

/** A hold that an operator asks for; `since` is now, or that of the hold of this name which it replaces. */
export type HoldRequest = Omit<HoldRecord, 'since'>

/** Holds that operators set: accounts are out and notifications are stopped, until an instant. */
export interface OperatorHolds {
  /** The holds in force, in the order of their names. */
  list(): readonly HoldRecord[]
  /**
   * Puts a hold in force, in place of the one of the same name; resolves when it is on disk. From then on nothing is
   * sent that it stops. Throws INVALID_REQUEST for too many holds.
   */
  put(request: HoldRequest): Promise<HoldRecord>
  /** Ends a hold before its time; false where none of this name is in force. */
  end(name: string): Promise<boolean>
}
