/**
 * The store's port for feedback: events that providers and callers report of notifications that were sent, and the
 * index by which a provider's own ids and addresses lead back to a notification. Both are a record apart from the
 * states of notifications: an event changes no status, so it never meets a move.
 */
import type { Channel, Notification } from '../model.ts'

export const feedbackTypes = ['complaint', 'bounce', 'delivered', 'open', 'click', 'unsubscribe'] as const
export type FeedbackType = (typeof feedbackTypes)[number]

/** One event about one notification, as it is on record. Instants are epoch milliseconds. */
export interface FeedbackEvent {
  readonly tenant: string
  readonly notificationId: string
  /** Identifies the event within its notification: the same key again is the same event. */
  readonly key: string
  readonly type: FeedbackType
  readonly channel: Channel
  readonly category: string
  /** The instant at which it happened, as the reporter says. */
  readonly at: number
  /** The instant at which it was recorded. */
  readonly keptAt: number
  /** True for a bounce after which the address reaches nobody. */
  readonly permanent?: true
  /** The provider's own words, which an erasure of the recipient removes. */
  readonly detail?: string
  /** The account whose webhook reported it; absent for an event of the caller's own system. */
  readonly account?: string
}

/** Leads from an id or an address at a provider to the notification that was sent under it. */
export interface SentRecord {
  /** A keyed hash of channel, account and id or address. The newest record of a key counts. */
  readonly key: string
  readonly tenant: string
  readonly notificationId: string
  readonly sentAt: number
}

/** The part of a notification that a report about it needs, without its content. */
export type ReportedNotification = Pick<
  Notification,
  'tenant' | 'id' | 'channel' | 'category' | 'to' | 'timeline'
>

/** A report whose notification is not on record yet: webhooks overtake the settlement. */
export interface WaitingReport {
  /** The same report has the same id. */
  readonly id: string
  /** The tenant or account that reported it. */
  readonly reporter: string
  /** The instant until which its notification is looked for. */
  readonly until: number
  /** The report, as JSON. */
  readonly body: string
}

/** The number of reports that wait at most: of one reporter, and of all. */
export interface WaitingBounds {
  readonly ofOne: number
  readonly ofAll: number
}

export interface NotificationName {
  readonly tenant: string
  readonly notificationId: string
}

export interface FeedbackQuery {
  readonly tenant: string
  readonly category: string
  readonly type: FeedbackType
  /** Bounds of `at`: from inclusive, to exclusive. */
  readonly from: number
  readonly to: number
  readonly cursor?: string
  readonly limit: number
}

export interface FeedbackPage {
  readonly items: readonly FeedbackEvent[]
  readonly nextCursor: string | null
}

export interface FeedbackRecord {
  /**
   * Records events; resolves when they are on disk. An event whose key is on record for its notification stays as it
   * is. The words of a provider about an erased recipient, or about a notification that is not on record, are left out, also
   * where the erasure or the removal comes at the same moment. At most 1,000 at once.
   * @returns for each event, whether it is new
   */
  keep(events: readonly FeedbackEvent[]): Promise<readonly boolean[]>
  /** Reads the events of notifications of one tenant, oldest first. At most 1,000 notifications at once. */
  of(tenant: string, notificationIds: readonly string[]): Promise<readonly FeedbackEvent[]>
  /** Reads the keys of the events of each notification. At most 1,000 notifications at once. */
  keysOf(names: readonly NotificationName[]): Promise<readonly (readonly string[])[]>
  /** Reads events of one tenant, category and type, in the order of `at`. */
  list(query: FeedbackQuery): Promise<FeedbackPage>
  /** Reads the complaints of all tenants, in the order of `at`: for counts that begin anew with the process. */
  complaints(query: Pick<FeedbackQuery, 'from' | 'to' | 'cursor' | 'limit'>): Promise<FeedbackPage>
  /**
   * Records reports that wait, within the bounds; resolves when they are on disk. At most 1,000 at once.
   * @returns for each report, whether it waits now
   */
  keepWaiting(reports: readonly WaitingReport[], bounds: WaitingBounds): Promise<readonly boolean[]>
  /** Reads waiting reports in the order of their ids, behind one of them. */
  waiting(limit: number, after?: string): Promise<readonly WaitingReport[]>
  /** Removes waiting reports. */
  endWaiting(ids: readonly string[]): Promise<void>
  /** Records under which ids and addresses notifications were sent. At most 1,000 at once. */
  keepSent(records: readonly SentRecord[]): Promise<void>
  /** Finds the newest record of each key that was sent at `since` or later. At most 1,000 keys at once. */
  findSent(keys: readonly string[], since: number): Promise<readonly (SentRecord | undefined)[]>
  /**
   * Finds notifications by id alone, in the order of the ids. One whose recipient is being erased stands under the name that
   * is left of the recipient, and has no address. At most 1,000 ids at once.
   */
  reported(notificationIds: readonly string[]): Promise<readonly (ReportedNotification | undefined)[]>
  /**
   * Removes events that were recorded before `events`, and sent records of before `sent`.
   * @returns the number of rows that were removed
   */
  prune(before: { readonly events: number; readonly sent: number }): Promise<number>
}

/** Tells listeners of each event once, when it is on record. */
export interface FeedbackHappening {
  readonly tenant: string
  readonly category: string
  readonly channel: Channel
  readonly type: FeedbackType
  readonly at: number
  readonly notificationId: string
}

export interface FeedbackSource {
  /** Calls back for each new event. Returns the function that ends it. */
  onFeedback(listener: (happening: FeedbackHappening) => void): () => void
}
