/**
 * The doors between the stages, as interfaces: what intake hands to admission, what schedule and dispatch ask of it,
 * and the ledger through which all of them write. No stage knows another's inside; gateway.ts joins them.
 */
import type {
  Channel,
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
import type {
  Change,
  CommitResult,
  Countable,
  DeadLetterQuery,
  JobWork,
  Reservation,
  SendResult,
  Store,
  StoredAnswer,
} from './ports.ts'

export interface Caller {
  readonly tenant: string
  readonly module: string
}

export type Admitted =
  /** `queuedBehind` names the platform limit that makes it wait; a client is told 429. */
  | { readonly ok: true; readonly notification: Notification; readonly queuedBehind?: 'tenant' | 'module' }
  /** This one was refused and nothing of it was kept. */
  | { readonly ok: false; readonly error: Error }

export interface Admit {
  readonly caller: Caller
  readonly drafts: readonly Draft[]
  /** Builds what a repetition is answered; stored in the commit that accepts. */
  readonly answer?: (results: readonly Admitted[]) => StoredAnswer
  /** The job that the drafts are of moves on in the same commit. They have held their places in the queue since it was opened. */
  readonly job?: { readonly before: Job; readonly after: Job }
}

export interface Gate {
  /**
   * Decides, counts, and resolves when everything accepted is on disk. Throws QUEUE_FULL, STORE_UNAVAILABLE (also
   * where the job is no longer as believed), STATE_UNAVAILABLE.
   */
  admit(request: Admit): Promise<readonly Admitted[]>
  /** What `admit` would decide now; consumes nothing. */
  preview(caller: Caller, draft: Draft): Promise<{ readonly draft: Draft; readonly decision: Decision }>
  /** Ends what still waits and gives its places back. Throws NOT_FOUND, NOT_CANCELLABLE. */
  cancel(tenant: string, id: string): Promise<void>
  /** Stores a recipient and decides anew what waits for them. */
  saveRecipient(recipient: Recipient): Promise<void>
  /** Its place now in the line of its tenant, which moves up; undefined where it stands in none. */
  placeOf(notification: Notification): Promise<number | undefined>
  /** Each limit's use for a recipient. */
  usage(tenant: string, recipient: string): Promise<readonly LimitUsage[]>
  /** Decides what was accepted undecided and is now due. */
  resume(notifications: readonly Notification[]): Promise<void>
  /** The same for those whose turn in the line of a tenant has come before the instant on record. */
  promote(tenant: string, ids: readonly string[]): Promise<void>
  /** Ends the collecting of a digest: sends it, its items one by one, or leaves it open until a limit admits it. */
  closeDigest(digest: Digest): Promise<void>
  /** Sends dead letters on their way again. */
  redrive(request: RedriveRequest): Promise<RedriveResult>
}

/** The dead letters that an operator wants on their way again: those that fit all of it. */
export interface RedriveRequest extends Omit<DeadLetterQuery, 'limit' | 'cursor' | 'priority' | 'causes'> {
  /** Everything that fits, calls of unknown outcome too. A filter by channel or tenant alone leaves these out. */
  readonly all?: boolean
  /** Only counts. */
  readonly dryRun?: boolean
  /** The tenant of who asks: ids that are no dead letters are looked up there, where the filter names no tenant. */
  readonly caller?: string
}

/** A letter that was left where it is. */
export interface RedriveLeft {
  readonly notificationId: string
  readonly why: 'not_dead' | 'expired' | 'cancelled' | 'queue_full'
}

export interface RedriveResult {
  readonly redriven: number
  readonly left: readonly RedriveLeft[]
}

/** A batch for the background: its message, who is to get it, and who is refused already. */
export interface OpenJob {
  readonly caller: Caller
  readonly work: JobWork
  readonly refused: readonly Refusal[]
  /** How large the request was. */
  readonly bytes?: number
  /** Builds what a repetition is answered; stored in the commit that opens the job. */
  readonly answer?: (job: Job) => StoredAnswer
}

export interface Jobs {
  /** Resolves when the job is on disk. Throws QUEUE_FULL, STORE_UNAVAILABLE, and IDEMPOTENCY_IN_PROGRESS where its answer is. */
  open(request: OpenJob): Promise<Job>
  /** Accepts nothing more of it and cancels what still waits. Throws NOT_CANCELLABLE where all of it has left or ended. */
  cancel(job: Job): Promise<void>
  /** How many are not done yet. */
  running(): number
}

/** One window of the limits of a tenant and its module. */
export interface ThrottleUsage {
  readonly of: 'tenant' | 'module'
  readonly window: string
  readonly windowMs: number
  readonly max: number
  /** Without what is queued for later. */
  readonly remaining: number
  /** When the oldest entry leaves the window; now where it is empty. */
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

/** What is known of people, cached; changed only through `Gate.saveRecipient`. */
export interface Recipients {
  /** Answers at once what is cached; `null` for somebody unknown. */
  cached(tenant: string, recipient: string): Recipient | null | undefined
  find(tenant: string, recipient: string): Promise<Recipient | null>
}

/** The content that is kept apart from its notifications (content.ts). */
export interface Contents {
  /** The whole content of a notification: at once where it is at hand. NOT_FOUND where it is gone from the record. */
  of(notification: Notification): Payload | Promise<Payload>
  find(tenant: string, id: string): SharedContent | Promise<SharedContent>
  /** Keeps at hand what was just written. */
  keep(content: SharedContent): void
  /** It is on record no more. */
  forget(id: string): void
  /** Some of its contents are on record no more. */
  forgetTenant(tenant: string): void
}

/** What a booking is asked for. */
export interface ReservationRequest {
  readonly notification: Countable & Pick<Notification, 'id'>
  readonly recipient: Recipient | null
  readonly notBefore?: number
  readonly horizonMs?: number
  /** All limits wait, also those that would drop, digest or fall back. @defaultValue false */
  readonly patient?: boolean
  /** It waited before, and is not held up while others of its subjects move up. @defaultValue false */
  readonly waited?: boolean
}

/**
 * The limits of the policy as notifications meet them: a notification's rules, subjects and forbidden hours are
 * found here, and all of its subjects are asked as one.
 */
export interface RecipientLimiter {
  reserve(reservationRequests: readonly ReservationRequest[]): Promise<readonly Reservation[]>
  preview(reservationRequests: readonly ReservationRequest[]): Promise<readonly Reservation[]>
  /** At the moment of handing over: counted as sent now, or booked anew at `at`. */
  fire(
    reservationRequests: readonly ReservationRequest[],
  ): Promise<readonly { readonly fired: boolean; readonly at: number }[]>
  /** Counts as sent now what was fired before: it has left only now. */
  left(reservationRequest: Pick<ReservationRequest, 'notification' | 'recipient'>): Promise<void>
  /** Counts a refused notification where limits count what they refuse; false where none does. */
  countRefusal(reservationRequest: Pick<ReservationRequest, 'notification' | 'recipient'>): Promise<boolean>
  /** Takes that back: the refusal was not written. */
  forgetRefusal(reservationRequest: Pick<ReservationRequest, 'notification' | 'recipient'>): Promise<void>
  /** Gives the places back, and lets those who wait for them move up. */
  cancel(
    reservationRequests: readonly Pick<ReservationRequest, 'notification' | 'recipient'>[],
  ): Promise<void>
  /** They hold no instant, and are tried again when a place of theirs becomes free. */
  enlist(
    reservationRequests: readonly Pick<ReservationRequest, 'notification' | 'recipient'>[],
  ): Promise<void>
  /**
   * Takes a place back for the time in which another one is looked for: newcomers wait. The answer is called with
   * whether that place is free now, and lets those who wait move up where it is.
   */
  lift(
    reservationRequest: Pick<ReservationRequest, 'notification' | 'recipient'>,
  ): Promise<(isFree: boolean) => Promise<void>>
  /** Books one that holds an instant anew where its limits admit it earlier; undefined where it stays. */
  advance(reservationRequest: ReservationRequest): Promise<Reservation | undefined>
}

/** One call to a provider, and all that its settlement depends on. */
export interface Attempted {
  readonly notification: Notification
  /** What memory knows beyond the record: it stood in the queue, it was handed over. */
  readonly events: readonly TimelineEvent[]
  readonly result: SendResult
  readonly provider: string
  readonly account: string
  /** When it was handed to the provider. */
  readonly firedAt: number
  readonly now: number
  /** What becomes of it where it was not delivered and is not refused for good. */
  readonly retry: Retry
  /** Whether the provider recognises a repetition, so that an unknown outcome may be tried again. */
  readonly idempotent: boolean
}

export type Retry =
  /** By another account, as soon as one is free. */
  | { readonly kind: 'elsewhere' }
  | { readonly kind: 'later'; readonly at: number }
  /** Its attempts are used up. */
  | { readonly kind: 'never' }
  /** The pool has repeated as much as it may; it returns when there is room. */
  | { readonly kind: 'no_budget' }

/** What is to happen later. */
export interface Scheduler {
  /** Takes care of what has just been written: to the queue when due, in memory when due soon, else it is the store's. */
  place(notifications: readonly Notification[]): void
  /** What left the queue and could not go, and is on record again: it stands before the others of its urgency. */
  placeFirst(notification: Notification): void
  /** Brings what is held in memory to the queue again at an instant that is near; the record stays as it is. */
  postpone(notification: Notification, at: number): void
  /** A digest closes at this instant. */
  noteDigest(closesAt: number): void
  /**
   * To be called when a change was refused whose notification had been taken out of memory: somebody else has moved it
   * on, and takes care of it. Where nobody does, the record says where it stands, and it is placed there, half a second
   * later where it is due. Never throws.
   */
  recover(notification: Pick<Notification, 'tenant' | 'id'>): Promise<void>
}

/** The one way to write: commits, keeps the counts and the live versions, and tells the listeners. */
export interface Ledger {
  commit(change: Change): Promise<CommitResult>
  /** This process now keeps the notification in memory, on its way out. */
  hold(notification: Notification): void
  release(notification: Notification): void
  /** Whether it is held, and this is still its current version: a cancelled or re-decided one is not. */
  isCurrent(notification: Notification): boolean
  /** Notes, without a commit, that a held one stands in the queue or is with a provider. False when it is not current. */
  mark(notification: Notification, status: 'queued' | 'sending'): boolean
  /** What is known in memory beyond the record: the live state, and the events on the way to it. */
  live(id: string): Live | undefined
  /** How many of each tenant this process holds, those of whom it holds any. */
  held(): ReadonlyMap<string, number>
  subscribe(listener: (happening: Happening) => void): () => void
  /** How many are in each state, on record. */
  counts(): Readonly<Record<Status, number>>
  /** Drops what is over, as `Store.prune` does, and counts it no more. Returns how many rows. */
  prune(before: Parameters<Store['prune']>[0]): Promise<number>
  /** How many notifications were dropped since the process began. */
  pruned(): number
  /** Takes places within the bounds of a tenant or throws QUEUE_FULL; the returned function gives them back. */
  takeRoom(tenant: string, room: Room): () => void
  occupancy(tenant: string): { readonly queue: number; readonly waiting: number; readonly bytes: number }
}

export interface Live {
  readonly notification: Notification
  readonly status: Status
  /** Not yet on record; written with the next move. */
  readonly events: readonly TimelineEvent[]
}

/** Places within the bounds of architecture's invariant 7; `critical` may use a tenth of the queue on top, at least one. */
export interface Room {
  readonly queue: number
  readonly critical: number
  readonly waiting: number
  /** Of content, as it is stored. @defaultValue 0 */
  readonly bytes?: number
}

/** A change of state that is on record. */
export interface Happening {
  readonly notification: Notification
  readonly events: readonly TimelineEvent[]
}

export interface PoolReport {
  readonly channel: Channel
  readonly provider: string
  readonly rate: string
  readonly accounts: readonly AccountReport[]
}

/** For the metrics of a pool: since the start of this process. */
export interface PoolCounts {
  readonly channel: Channel
  readonly provider: string
  /** Of its accounts: blocked by a 429, breaker opened or closed, calls at once changed. */
  readonly changes: Readonly<Record<'blocked' | 'opened' | 'closed' | 'resized', number>>
  /** How many repetitions the pool may make now. */
  readonly retryBudget: number
}

/** Why an account is out: a 429 blocked it, or its breaker is not closed. */
export type OutBecause = 'rate_limited' | 'breaker'

/** Blocked by a 429, or out by its breaker: open, or half open while one probe is under way. */
export type AccountStatus = 'healthy' | 'blocked' | 'open' | 'half_open'

export interface AccountReport {
  readonly id: string
  readonly rate: string
  /** Calls in the narrowest window ending now. */
  readonly used: number
  readonly status: AccountStatus
  /** Until when a 429 has blocked it; `null` where none has. */
  readonly blockedUntil: number | null
  /** Until when it is out, whatever the reason; `null` while it is in. Not before now, also while a probe is under way. */
  readonly outUntil: number | null
  /** The reason that keeps it out longest; `null` while it is in. */
  readonly outBecause: OutBecause | null
  /** Calls per second that the provider was last seen to allow. */
  readonly learnedRate: number | null
  /** Calls under way at most. */
  readonly concurrency: number
}
