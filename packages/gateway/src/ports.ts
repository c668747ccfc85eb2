/**
 * The edges of the gateway as interfaces: time, chance, the store, the limiter's state, the queue, the providers.
 * Stages know these, and the doors between them (stages.ts), and nothing behind them; the composition joins the two.
 * Every port is asynchronous and takes many at once, so that an engine across a network needs one round trip.
 * Instants are epoch milliseconds, durations milliseconds.
 */

import type { Admission, AdmissionQuery } from './admission-ports.ts'
import type { Erasing, StoredRecipient } from './erasure-ports.ts'
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
import type { AccountRecord } from './provider-ports.ts'

export type { Admission, AdmissionQuery, Countable } from './admission-ports.ts'
export type { ErasureResult, StoredRecipient } from './erasure-ports.ts'

export type { Advance, Claim, Firing, LimitRequest, LimitState, Reservation, Subject } from './limit-ports.ts'
export type {
  Account,
  AccountRecord,
  Alert,
  Alerts,
  Message,
  Provider,
  SendResult,
  UseRecord,
} from './provider-ports.ts'

// ---- time and chance

export interface Clock {
  /**
   * The instant on the line of this process: like epoch milliseconds, but it never steps. All that is stored or
   * measured is on this line.
   */
  now(): number
  /**
   * By how many ms the wall clock is ahead of the line: what people read is an instant of the line and this, what they
   * write is that less this. Absent: it never steps, as in virtual time.
   */
  aheadMs?(): number
  /** Calls back once `now()` has reached the instant; the returned function calls it off. */
  at(instant: number, callback: () => void): () => void
  /** Calls back after what has already arrived is handled: the moment at which a group commit is written. */
  soon(callback: () => void): void
}

/** How the line of a process stood when it was last kept. */
export interface TimeLine {
  /** An instant that it had reached. */
  readonly at: number
  /** By how much the wall clock was ahead. */
  readonly aheadMs: number
}

export interface Random {
  /** Uniform in [0, 1). */
  next(): number
  /** A new identifier that sorts by time (ULID). */
  id(now: number): string
}

// ---- who asks

/** What a token says of its bearer, beyond doubt. */
export type Claims = Readonly<Record<string, unknown>>

/** Knows tokens by their keys. */
export interface Tokens {
  /**
   * The claims of a token whose signature, issuer, audience and times hold; `exp` is among them. Throws
   * UNAUTHENTICATED, or KEYS_UNAVAILABLE where the keys cannot be had now.
   */
  verify(token: string): Promise<Claims>
  close(): void
}

// ---- the store, which is the truth

export type DigestWrite =
  /**
   * Every change that adds an item says so: it holds only while this digest is open, and from here on the digest
   * closes at the instant given, which the item was told, or earlier.
   */
  | { readonly kind: 'join'; readonly digest: Digest }
  /**
   * The same of a digest that may be on record already, as others open it in the same moment. Refused where another one
   * collects for its group, or where it has been closed.
   */
  | { readonly kind: 'open'; readonly digest: Digest }
  /**
   * Both hold only while the digest collects `left` items when all else of the change is written: an item that joined
   * since its items were read is neither left behind in a closed digest nor made to wait for the others' instant.
   * A postponement without it holds whatever the digest collects.
   */
  | { readonly kind: 'postpone'; readonly digest: Digest; readonly left?: number }
  | { readonly kind: 'close'; readonly digest: Digest; readonly left: 0 }

/** What a job still has to do: the message, and those who are to get it. Each one's own data goes over the common one, and may be a stand-in: `dataOf` of content.ts reads it. */
export interface JobWork {
  readonly message: Omit<Draft, 'to' | 'job' | 'shared'>
  readonly recipients: readonly (RecipientFields & { readonly data?: JsonObject })[]
}

export type JobWrite =
  /** What there is to do is kept as long as it runs. */
  | { readonly kind: 'open'; readonly job: Job; readonly work: JobWork }
  /** Holds only while the job is in the status and at the recipient of `before`. */
  | { readonly kind: 'move'; readonly before: Job; readonly after: Job }

/** What a client that repeats a request with the same Idempotency-Key is answered. */
export interface StoredAnswer {
  readonly tenant: string
  readonly module: string
  readonly method: string
  readonly path: string
  readonly key: string
  /** SHA-256 of the body. */
  readonly requestHash: string
  readonly status: number
  readonly body: string
  readonly createdAt: number
}

export type AnswerKey = Pick<StoredAnswer, 'tenant' | 'module' | 'method' | 'path' | 'key'>

/** Written as a whole or not at all. */
export interface Change {
  /** New, and kept for as long as something refers to it. */
  readonly contents?: readonly SharedContent[]
  readonly accept?: readonly Notification[]
  readonly moves?: readonly Move[]
  readonly digests?: readonly DigestWrite[]
  readonly recipients?: readonly Recipient[]
  readonly answer?: StoredAnswer
  readonly jobs?: readonly JobWrite[]
  readonly accounts?: readonly AccountRecord[]
}

export type CommitResult =
  | { readonly applied: true }
  /** Nothing was written: these notifications, digests, jobs or keys were no longer as the change believed. */
  | { readonly applied: false; readonly conflicts: readonly string[] }

export interface ListQuery {
  readonly tenant: string
  readonly recipient?: string
  readonly statuses?: readonly Status[]
  readonly category?: string
  readonly channel?: Channel
  readonly job?: string
  /** Bounds of createdAt: from inclusive, to exclusive. */
  readonly from?: number
  readonly to?: number
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
  /** Any of these. */
  readonly causes?: readonly DeadCause[]
  readonly priority?: Priority
  readonly ids?: readonly string[]
  readonly cursor?: string
  readonly limit: number
}

/** A walk through the record in the order of acceptance. */
export interface ScanQuery {
  readonly statuses: readonly Status[]
  /** Any of these. @defaultValue all */
  readonly channels?: readonly Channel[]
  /** Only what was decided under another policy than the one of this version. */
  readonly notPolicy?: string
  readonly cursor?: string
  /** Rows that are looked at: a page may hold fewer, even none. */
  readonly limit: number
}

export interface Tally {
  readonly tenant: string
  readonly status: Status
  /** Of the scheduled: those that wait for a tenant or module limit. */
  readonly throttled: boolean
  /** Of the dead: those whose channel no pool serves, which count in no bound. @defaultValue false */
  readonly unserved?: true
  readonly count: number
  /** The content that they carry themselves; 0 of those that have ended. */
  readonly bytes: number
}

/** A content that is kept apart, and how many that have not ended refer to it. */
export interface WaitingContent extends ContentRef {
  readonly tenant: string
  readonly waiting: number
}

export interface Pruned {
  /** How many answers, notifications and jobs. */
  readonly rows: number
  /** The notifications among them, by tenant and state. */
  readonly tallies: readonly Tally[]
}

/** How the names begin under which the rows of erased people stay. */
export const pseudonymPrefix = 'erased:'

export interface Store extends Erasing {
  /** Whether the process before ended without `close`: what follows from its last commits may not have been done. */
  readonly crashed: boolean
  /** Resolves when the change is on disk. Changes that arrive together share one durable commit. */
  commit(change: Change): Promise<CommitResult>
  notification(tenant: string, id: string): Promise<Notification | undefined>
  /** Newest first. */
  list(query: ListQuery): Promise<Page<Notification>>
  /** Over all tenants where the query names none. Oldest first. */
  deadLetters(query: DeadLetterQuery): Promise<Page<Notification>>
  /** Of all tenants, oldest first; the end is where `nextCursor` is null. */
  scan(query: ScanQuery): Promise<Page<Notification>>
  recipient(tenant: string, id: string): Promise<StoredRecipient | undefined>
  /**
   * Whether there may be any preferences of a recipient, or any notifications, on record or on their way there: known at
   * once, so that nobody waits for a question about those who are new. `false` is certain.
   */
  mayHave(what: 'preferences' | 'notifications', tenant: string, recipient: string): boolean
  /**
   * A page of what has not left of a recipient: scheduled, digesting, queued, in the order of acceptance. It has at most
   * `limit` rows, and fewer where they are large, so that a page costs some milliseconds.
   */
  waiting(
    tenant: string,
    recipient: string,
    cursor: string | null,
    limit: number,
  ): Promise<Page<Notification>>
  admissions(query: AdmissionQuery): Promise<readonly Admission[]>
  /** Of all tenants what stands in the line before a tenant or module limit, in the order of acceptance. */
  inThrottleQueue(query: { readonly after?: string; readonly limit: number }): Promise<readonly Admission[]>
  /**
   * What is scheduled, queued or dead and due by `until`, earliest first, at most `limit`, and is not already held
   * by a live process: from here on this process holds it, until a move changes its dueAt or ends it. Those of the
   * tenants in `without` are passed over and come later, by turns of the tenants, when these are not in it any more.
   * A page may be short, even empty, before `claimedUntil` has reached `until`.
   */
  claimDue(until: number, limit: number, without?: Iterable<string>): Promise<readonly Notification[]>
  /**
   * Up to where claims have gone. What is written with a dueAt up to here counts as claimed by its writer, who
   * keeps it in memory or gives it back with `releaseFingerprints`.
   */
  claimedUntil(): number
  /** Puts back what was claimed and cannot be kept in memory. */
  releaseFingerprints(notifications: readonly Notification[]): Promise<void>
  openDigest(
    digest: Pick<Digest, 'tenant' | 'recipient' | 'channel' | 'category' | 'name'>,
  ): Promise<Digest | undefined>
  /** An open digest by its id. */
  digest(id: string): Promise<Digest | undefined>
  /** Open digests that close by `until`, earliest first. Asking again returns them again until they are closed or postponed. */
  dueDigests(until: number, limit: number): Promise<readonly Digest[]>
  /**
   * The items that a digest collects, in the order of their acceptance: at most `limit` behind the cursor, and fewer
   * where they are large, so that a page costs some milliseconds.
   */
  digestItems(digest: Pick<Digest, 'id'>, cursor: string | null, limit: number): Promise<Page<Notification>>
  /**
   * Items whose digest is not open, which nothing would ever bring to an end: none since `left` is checked, some from
   * before. A page may be empty and go on; of one digest it has at most `limit`, the rest is found when they are gone.
   */
  orphans(cursor: string | null, limit: number): Promise<Page<Notification>>
  /** The earliest instant at which anything unclaimed is due. */
  nextDueAt(): Promise<number | undefined>
  /** The earliest instant at which an open digest closes. */
  nextDigestAt(): Promise<number | undefined>
  answer(key: AnswerKey): Promise<StoredAnswer | undefined>
  job(tenant: string, id: string): Promise<Job | undefined>
  /** Absent when it no longer runs. */
  jobWork(job: Pick<Job, 'tenant' | 'id'>): Promise<JobWork | undefined>
  /** Of all tenants, oldest first. */
  runningJobs(): Promise<readonly Job[]>
  /** The notifications of a job, as they are on record. */
  jobMembers(job: Pick<Job, 'tenant' | 'id'>): Promise<readonly Pick<Notification, 'id' | 'status'>[]>
  /** What was written of accounts, and not taken back by a record without anything to be known. */
  accounts(): Promise<readonly AccountRecord[]>
  /** How many notifications are in each state: kept up with every commit. */
  tallies(): Promise<readonly Tally[]>
  /** A content that is kept apart; absent where nothing on record refers to it any more. */
  content(tenant: string, id: string): Promise<SharedContent | undefined>
  /** The contents to which something refers that has not ended. */
  waitingContents(): Promise<readonly WaitingContent[]>
  /** What was kept last, by this process or the one before. */
  timeLine(): Promise<TimeLine | undefined>
  keepTimeLine(line: TimeLine): Promise<void>
  /** Whether it can be read and written now; throws what is wrong. */
  ping(): Promise<void>
  /**
   * Drops stored answers and final notifications older than the given instants, and jobs as old as these that have
   * ended and of which no notification is left.
   */
  prune(before: { readonly answers: number; readonly notifications: number }): Promise<Pruned>
  /** Ends cleanly: what is unsettled at the next opening has not been sent. */
  close(): Promise<void>
}

// ---- the queue of what is ready to leave

export interface Queue {
  /** Resolves when the queue holds them. They are on record before they come here. */
  push(notifications: readonly Notification[]): Promise<void>
  /** Puts back what was pulled and could not leave: it stands before the others of its urgency. */
  giveBack(notifications: readonly Notification[]): void
  /** Takes up to `max` for a channel, fair among tenants, urgent first. Empty when there are none. */
  pull(channel: Channel, max: number): readonly Notification[]
  /** Calls `wake` whenever something for the channel arrives, and says how many. */
  subscribe(channel: Channel, wake: (arrived: number) => void): void
  size(channel?: Channel): number
  /** How many critical ones are among them. */
  critical(channel: Channel): number
  /** Since when the one that has waited longest stands here. */
  oldest(channel: Channel): number | undefined
  /** Takes out what has stood here since the instant or longer, least urgent first. */
  takeOverdue(channel: Channel, since: number, max: number): readonly Notification[]
  close(): Promise<void>
}

// ---- who is connected

/** `written`: a socket took it. `absent`: nobody is connected (any more). `unread`: nobody had taken it in time. */
export type Delivery = 'written' | 'absent' | 'unread'

/** The open WebSocket connections, as whoever has something for a recipient sees them. */
export interface Hub {
  isConnected(tenant: string, recipient: string): boolean
  /** Sends to every connection of the recipient; resolves with the first socket that took it, or at the signal. */
  deliver(tenant: string, recipient: string, data: JsonObject, signal: AbortSignal): Promise<Delivery>
  /** Calls back when somebody is there who was not. */
  onConnect(listener: (tenant: string, recipient: string) => void): () => void
}

export interface Templates {
  has(name: string): boolean
  /** Whether it has a subject for this channel. */
  hasSubject(name: string, channel: Channel): boolean
  /** Throws INVALID_REQUEST where the template cannot be rendered for this channel and data. */
  render(name: string, channel: Channel, locals: JsonObject): Content
}
