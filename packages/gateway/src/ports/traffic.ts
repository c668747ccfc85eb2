/** The ports that read recorded traffic: its notifications with their feedback, and counts of what was delivered. */
import type { Notification } from '../model.ts'
import type { FeedbackEvent } from './feedback.ts'
import type { RecipientKey, StoredRecipient } from './recipients.ts'

// ---- recorded notifications
//
// The port from which recorded traffic is read: by `sluice export`, by a replay of a gateway's own record, and by
// `sluice advise --from-record`.

/** Selects notifications of one tenant that were created in a period. Epoch ms. */
export interface TrafficQuery {
  readonly tenant: string
  /** Inclusive. */
  readonly from: number
  /** Exclusive. */
  readonly to: number
  /** The `nextCursor` of the page before. */
  readonly cursor?: string
}

export interface TrafficPage {
  /** In the order of their creation; without rows that are damaged. */
  readonly items: readonly Notification[]
  /** Null at the end. A page may be empty before. */
  readonly nextCursor: string | null
}

/** Reads a record beside the gateway that writes it, in pages of some hundred rows, and writes nothing. */
export interface TrafficSource {
  /** The tenants that have notifications on record. */
  tenants(): Promise<readonly string[]>
  page(query: TrafficQuery): Promise<TrafficPage>
  /** Reads the preferences of recipients, in the order of the keys; undefined where none are on record, or not readable. */
  recipients(keys: readonly RecipientKey[]): Promise<readonly (StoredRecipient | undefined)[]>
  /** Reads the feedback on notifications of one tenant; those of a page at once. */
  feedback(tenant: string, notificationIds: readonly string[]): Promise<readonly FeedbackEvent[]>
  close(): Promise<void>
}

// ---- counts of deliveries and complaints
//
// The store's port that counts what was delivered, for the rate of complaints. One process reads it at its start, and
// counts what follows by itself; several processes read how far the totals of all of them have grown.

export interface DeliveredQuery {
  /** Bounds of the instant at which it was handed to the provider, epoch ms: from inclusive, to exclusive. */
  readonly from: number
  readonly to: number
  /** The width of a bucket, ms: an instant belongs to the bucket `floor(instant / bucketMs)`. */
  readonly bucketMs: number
  readonly categories: readonly string[]
}

/** The delivered notifications of a tenant and category in one bucket. */
export interface DeliveredCount {
  readonly tenant: string
  readonly category: string
  readonly bucket: number
  readonly count: number
}

export interface DeliveryCounts {
  /** Counts the delivered notifications on record by tenant, category and bucket, in any order. */
  delivered(query: DeliveredQuery): Promise<readonly DeliveredCount[]>
  /** Totals that several processes share; absent where the store serves one process at a time. */
  readonly deliveryTotals?: DeliveryTotals
}

/** Deliveries and complaints of a tenant and category since some beginning: only the growth of a total means anything. */
export interface DeliveryTotal {
  readonly tenant: string
  readonly category: string
  readonly delivered: number
  readonly complained: number
}

/** Each total grows in the commit that it counts, whichever process made it: nothing is missed, and nothing twice. */
export interface DeliveryTotals {
  read(categories: readonly string[]): Promise<readonly DeliveryTotal[]>
  /** Counts what is on record since `from`, with the totals of the same instant: growth from there on is added to it. */
  readWith(
    query: Omit<DeliveredQuery, 'to'>,
  ): Promise<{ readonly delivered: readonly DeliveredCount[]; readonly totals: readonly DeliveryTotal[] }>
}
