/**
 * The port from which recorded traffic is read: by `sluice export`, by a replay of a gateway's own record, and by
 * `sluice advise --from-record`.
 */
import type { StoredRecipient } from './erasure-ports.ts'
import type { FeedbackEvent } from './feedback-port.ts'
import type { Notification } from './model.ts'
import type { RecipientKey } from './recipient-port.ts'

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
