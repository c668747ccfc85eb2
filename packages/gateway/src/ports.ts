/**
 * The ports of the gateway as interfaces: clock, randomness, store, limiter state, queue, providers. Stages know these
 * and the interfaces between stages (stages.ts), and nothing behind them; the composition joins the two. Every port is
 * asynchronous and takes many items at once, so that an engine across a network needs one round trip. Instants are epoch
 * milliseconds, durations milliseconds.
 */
import type { BacklogSource } from './backlog-cell.ts'
import type { CommitLookup, Conflict } from './conflict.ts'
import type {
  Channel,
  Content,
  ContentRef,
  DeadCause,
  Digest,
  Draft,
  Job,
  JsonObject,
  Move,
  Notification,
  Priority,
  Recipient,
  RecipientFields,
  SharedContent,
  Status,
} from './model.ts'
import type { KeepsOutbox } from './ports/delivery-log.ts'
import type { FeedbackRecord } from './ports/feedback.ts'
import type { CarriedTemplates, DueClaims, Takeover, TemplatesOnRecord } from './ports/fleet.ts'
import type { HoldRecord, HoldWrite } from './ports/holds.ts'
import type { IntakeRecord } from './ports/intake.ts'
import type { Admission, AdmissionQuery, CountedQuery } from './ports/limiter.ts'
import type { AccountRecord } from './ports/providers.ts'
import type { Erasing, RecipientReads, RecipientVersion, ReportedOf } from './ports/recipients.ts'
import type { SendRights } from './ports/send-rights.ts'
import type { TimeLine } from './ports/time.ts'
import type { DeliveryCounts } from './ports/traffic.ts'

export type { Conflict } from './conflict.ts'
export type { HeldName, TakenOver, Takeover } from './ports/fleet.ts'
export type { HoldRecord, HoldWrite } from './ports/holds.ts'
export type {
  Admission,
  AdmissionQuery,
  Advance,
  Countable,
  CountedQuery,
  FingerprintHold,
  Firing,
  LimitRequest,
  LimitState,
  Reservation,
  SlotRelease,
  Subject,
} from './ports/limiter.ts'
export type {
  Account,
  AccountRecord,
  Alert,
  Alerts,
  Message,
  OnWritten,
  Provider,
  SendResult,
  UseRecord,
} from './ports/providers.ts'
export type { ErasureResult, RecipientKey, StoredRecipient } from './ports/recipients.ts'
export type { GivenRights, RightRequest } from './ports/send-rights.ts'
export type { Clock, Random, TimeLine } from './ports/time.ts'

// ---- the store, the source of truth

export type DigestWrite =
  /**
   * Joins an open digest. Every change that adds an item contains this write: it applies only while the digest is
   * open, and from then on the digest closes at the given instant, which the item was told, or earlier.
   */
  | { readonly kind: 'join'; readonly digest: Digest }
  /**
   * Opens a digest that concurrent changes may have opened already. Refused where another digest collects for its
   * group, or where this one has been closed.
   */
  | { readonly kind: 'open'; readonly digest: Digest }
  /**
   * Postpones a digest. This write and the next apply only while the digest collects `left` items after the rest of
   * the change is written: an item that joined after its items were read is neither left behind in a closed digest
   * nor delayed until the others' instant. A postponement without `left` applies whatever the digest collects.
   */
  | { readonly kind: 'postpone'; readonly digest: Digest; readonly left?: number }
  | { readonly kind: 'close'; readonly digest: Digest; readonly left: 0 }

/**
 * The remaining work of a job: its message and the recipients that are still to be accepted. Each recipient's own
 * data overrides the common data, and may be a stand-in that only `dataOf` of content.ts reads.
 */
export interface JobWork {
  readonly message: Omit<Draft, 'to' | 'job' | 'shared'>
  readonly recipients: readonly (RecipientFields & { readonly data?: JsonObject })[]
}

export type JobWrite =
  /** Opens a job. Its work is kept as long as it runs. */
  | { readonly kind: 'open'; readonly job: Job; readonly work: JobWork }
  /** Moves a job on; applies only while the job has the status and the position of `before`. */
  | { readonly kind: 'move'; readonly before: Job; readonly after: Job }

/** The stored response to a request, returned when a client repeats it with the same Idempotency-Key. */
export interface StoredAnswer {
  readonly tenant: string
  readonly module: string
  readonly method: string
  readonly path: string
  readonly key: string
  /** SHA-256 of the request's body. */
  readonly requestHash: string
  readonly status: number
  readonly body: string
  readonly createdAt: number
}

export type AnswerKey = Pick<StoredAnswer, 'tenant' | 'module' | 'method' | 'path' | 'key'>

/** The generation of a tenant's throttle queues or room under which a change was decided. */
export interface TenantGeneration {
  readonly tenant: string
  readonly state: 'throttle' | 'room'
  readonly number: number
}

/** Writes that are applied together or not at all. */
export interface Change {
  /** New contents; each is kept as long as a notification or job refers to it. */
  readonly contents?: readonly SharedContent[]
  readonly accept?: readonly Notification[]
  readonly moves?: readonly Move[]
  readonly digests?: readonly DigestWrite[]
  readonly recipients?: readonly Recipient[]
  /** The change applies only while these recipients have the versions under which it was decided (`isVersioned`). */
  readonly decidedFor?: readonly RecipientVersion[]
  /** The change applies only while these notifications name their recipients, of whom none is being erased. */
  readonly reportedOf?: readonly ReportedOf[]
  /** The change applies only while these are the newest generations of their states. */
  readonly generations?: readonly TenantGeneration[]
  readonly answer?: StoredAnswer
  readonly jobs?: readonly JobWrite[]
  readonly accounts?: readonly AccountRecord[]
  readonly holds?: readonly HoldWrite[]
  /** By `Clock.monotonic`: refused where it waited for its turn until then, as others may have what it took (`isVersioned`). */
  readonly sendBefore?: number
}

export type CommitResult =
  | { readonly applied: true }
  | { readonly applied: false; readonly conflicts: readonly Conflict[] }

export interface ListQuery {
  readonly tenant: string
  readonly recipient?: string
  readonly statuses?: readonly Status[]
  readonly category?: string
  readonly channel?: Channel
  readonly job?: string
  readonly module?: string
  readonly priority?: Priority
  readonly template?: string
  readonly actor?: string
  /** The reason of its newest event, or of its decision where that has none. */
  readonly reason?: string
  /** The limit that its decision names. */
  readonly limitName?: string
  readonly ids?: readonly string[]
  /** Bounds of `createdAt`: from inclusive, to exclusive. */
  readonly from?: number
  readonly to?: number
  /** `sendAt` lists only those recorded as scheduled, queued or dead, by their `dueAt`. @defaultValue newest first */
  readonly order?: 'sendAt'
  readonly cursor?: string
  readonly limit: number
}

export interface Page<T> {
  readonly items: readonly T[]
  readonly nextCursor: string | null
}

export interface DeadLetterQuery {
  readonly tenant?: string
  readonly channel?: Channel
  readonly cause?: DeadCause
  /** Selects dead letters with any of these causes. */
  readonly causes?: readonly DeadCause[]
  readonly priority?: Priority
  readonly ids?: readonly string[]
  readonly cursor?: string
  readonly limit: number
}

/** A scan of the record in the order of acceptance. */
export interface ScanQuery {
  readonly statuses: readonly Status[]
  /** Selects notifications of any of these channels. @defaultValue all */
  readonly channels?: readonly Channel[]
  /** Selects notifications that were decided under another policy version than this one. */
  readonly notPolicy?: string
  readonly cursor?: string
  /** The number of rows that a page returns at most. It examines a bounded number of rows: it may return fewer, even none. */
  readonly limit: number
}

export interface Tally {
  readonly tenant: string
  readonly status: Status
  /** For the scheduled status: whether this row counts those that wait for a tenant or module limit. */
  readonly throttled: boolean
  /** For dead letters: those whose channel no pool serves, which count in no bound. @defaultValue false */
  readonly unserved?: true
  readonly count: number
  /** Bytes of content that the notifications carry themselves; 0 for final statuses. */
  readonly bytes: number
}

/** A shared content and the number of unfinished notifications that refer to it. */
export interface WaitingContent extends ContentRef {
  readonly tenant: string
  readonly waiting: number
}

export interface Pruned {
  /** The number of stored answers, notifications and jobs that were removed. */
  readonly rows: number
  /** The removed notifications by tenant and status. */
  readonly tallies: readonly Tally[]
  /** The `createdAt` of the oldest notification that is left; absent where none is. */
  readonly oldestAt?: number
}

/** Prefix of the pseudonyms under which the rows of erased recipients stay. */
export const pseudonymPrefix = 'erased:'

/** The beginning of the names of holds by which the complaint guard keeps its stages: no operator can give such a name. */
export const complaintHoldPrefix = 'complaints/'

export interface Store
  extends BacklogSource,
    CommitLookup<Change>,
    DeliveryCounts,
    DueClaims,
    Erasing,
    KeepsOutbox,
    RecipientReads,
    SendRights,
    Takeover,
    TemplatesOnRecord {
  /** True if effects of the last commits may be missing: the process before was killed, or closed it unsettled. */
  readonly unsettled: boolean
  readonly feedback: FeedbackRecord
  readonly intake: IntakeRecord
  /** Resolves when the change is on disk. Changes that arrive together share one durable commit. */
  commit(change: Change): Promise<CommitResult>
  notification(tenant: string, id: string): Promise<Notification | undefined>
  /** Lists notifications, newest first or in the order of the query. */
  list(query: ListQuery): Promise<Page<Notification>>
  /** Lists dead letters, oldest first, over all tenants where the query names none. */
  deadLetters(query: DeadLetterQuery): Promise<Page<Notification>>
  /** Scans notifications of all tenants, oldest first; `nextCursor` is null at the end. */
  scan(query: ScanQuery): Promise<Page<Notification>>
  /**
   * Reads a page of a recipient's notifications that have not left: scheduled, digesting, queued, in the order of
   * acceptance. It has at most `limit` rows, and fewer where they are large, so that a page costs some milliseconds.
   */
  waiting(
    tenant: string,
    recipient: string,
    cursor: string | null,
    limit: number,
  ): Promise<Page<Notification>>
  admissions(query: AdmissionQuery): Promise<readonly Admission[]>
  /** Reads all that limits count of a subject, by pages in the order of acceptance; the end is where `nextCursor` is null. */
  counted(query: CountedQuery): Promise<Page<Admission>>
  /**
   * Reads the notifications of all tenants that stand in a throttle queue before a tenant or module limit, in the
   * order of acceptance.
   */
  inThrottleQueue(query: { readonly after?: string; readonly limit: number }): Promise<readonly Admission[]>
  /**
   * The instant up to which notifications have been claimed. A notification written with a dueAt up to this instant
   * counts as claimed by its writer, which keeps it in memory or returns it with `releaseDue`.
   */
  claimedUntil(): number
  /** Returns claimed notifications that cannot be kept in memory; `claimDue` gives them out again. */
  releaseDue(notifications: readonly Notification[]): Promise<void>
  openDigest(
    digest: Pick<Digest, 'tenant' | 'recipient' | 'channel' | 'category' | 'name'>,
  ): Promise<Digest | undefined>
  /** Finds an open digest by its id. */
  digest(id: string): Promise<Digest | undefined>
  /**
   * Open digests that close by `until`, earliest first. Every call returns them again until they are closed or
   * postponed.
   */
  dueDigests(until: number, limit: number): Promise<readonly Digest[]>
  /**
   * Reads the items that a digest collects, in the order of their acceptance: at most `limit` after the cursor, and
   * fewer where they are large, so that a page costs some milliseconds.
   */
  digestItems(digest: Pick<Digest, 'id'>, cursor: string | null, limit: number): Promise<Page<Notification>>
  /**
   * Reads items whose digest is not open, which nothing would ever bring to an end: none are written since `left` is
   * checked, older files may have some. A page may be empty and still have a next one; it has at most `limit` items
   * of one digest, the rest is found when they are gone.
   */
  orphans(cursor: string | null, limit: number): Promise<Page<Notification>>
  /** The earliest instant at which a notification is due that no process holds. */
  nextDueAt(): Promise<number | undefined>
  /** The earliest instant at which an open digest closes. */
  nextDigestAt(): Promise<number | undefined>
  answer(key: AnswerKey): Promise<StoredAnswer | undefined>
  job(tenant: string, id: string): Promise<Job | undefined>
  /** Reads the remaining work of a job; absent when the job no longer runs. */
  jobWork(job: Pick<Job, 'tenant' | 'id'>): Promise<JobWork | undefined>
  /** Running jobs of all tenants, oldest first. */
  runningJobs(): Promise<readonly Job[]>
  /** The notifications of a job, as they are on record. */
  jobMembers(job: Pick<Job, 'tenant' | 'id'>): Promise<readonly Pick<Notification, 'id' | 'status'>[]>
  /** Account records that were written and not removed by an empty record. */
  accounts(): Promise<readonly AccountRecord[]>
  /** The holds that were put and not ended, also those whose time is over. */
  holds(): Promise<readonly HoldRecord[]>
  /** The number of notifications by status, kept up to date with every commit. */
  tallies(): Promise<readonly Tally[]>
  /** Reads a shared content; absent where nothing on record refers to it any more. */
  content(tenant: string, id: string): Promise<SharedContent | undefined>
  /** Shared contents to which unfinished notifications refer. */
  waitingContents(): Promise<readonly WaitingContent[]>
  /** The time line that was saved last, by this process or the previous one. */
  timeLine(): Promise<TimeLine | undefined>
  keepTimeLine(line: TimeLine): Promise<void>
  /** Checks that the store can be read and written now; throws the fault. */
  ping(): Promise<void>
  /**
   * Removes stored answers and final notifications older than the given instants, and ended jobs as old as these
   * notifications that have no notification left.
   */
  prune(before: { readonly answers: number; readonly notifications: number }): Promise<Pruned>
  /** Closes cleanly: what is unsettled then has not been sent. False where effects are missing. @defaultValue true */
  close(isSettled?: boolean): Promise<void>
}

// ---- the send queue

export interface Queue {
  /** Adds notifications that are already on record; resolves when the queue holds them. */
  push(notifications: readonly Notification[]): Promise<void>
  /** Returns pulled notifications that could not leave, to the front of their priority. */
  giveBack(notifications: readonly Notification[]): void
  /** Takes up to `max` for a channel, fair among tenants, highest priority first. Empty when there are none. */
  pull(channel: Channel, max: number): readonly Notification[]
  /** Calls `wake` with the number of notifications whenever some arrive for the channel. */
  subscribe(channel: Channel, wake: (arrived: number) => void): void
  size(channel?: Channel): number
  /** The number of queued notifications with critical priority. */
  critical(channel: Channel): number
  /** The instant since which the oldest queued notification waits. */
  oldest(channel: Channel): number | undefined
  /** The earliest `dueAt` among the notifications at the fronts of the channel's FIFOs. */
  oldestDue(channel: Channel): number | undefined
  /** Removes notifications that have been queued since the instant or longer, lowest priority first. */
  takeOverdue(channel: Channel, since: number, max: number): readonly Notification[]
  close(): Promise<void>
}

// ---- WebSocket connections

/**
 * Result of a WebSocket delivery. `written`: a socket took it. `absent`: the recipient has no connection (any more).
 * `unread`: no connection took it in time.
 */
export type Delivery = 'written' | 'absent' | 'unread'

/** The presence of recipients: open WebSocket connections, here or at any process. */
export interface Presence {
  /** Tells for each recipient if a connection is open; without a promise where no other process must be asked. */
  areConnected(
    recipients: readonly { readonly tenant: string; readonly recipient: string }[],
  ): readonly boolean[] | Promise<readonly boolean[]>
  /** Sends to every connection of the recipient; resolves with the first socket that took it, or at the signal. */
  deliver(tenant: string, recipient: string, data: JsonObject, signal: AbortSignal): Promise<Delivery>
  /** Calls back when a recipient connects who had no connection before. */
  onConnect(listener: (tenant: string, recipient: string) => void): () => void
}

export interface Templates {
  has(name: string): boolean
  /** True if the template has a subject for this channel. */
  hasSubject(name: string, channel: Channel): boolean
  /** Renders a template. Throws INVALID_REQUEST where it cannot be rendered for this channel and data. */
  render(name: string, channel: Channel, locals: JsonObject): Content
  /** Absent where every template can be rendered. */
  readonly carried?: CarriedTemplates | undefined
}
