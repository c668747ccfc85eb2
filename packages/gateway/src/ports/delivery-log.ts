/**
 * The ports of the delivery log, a record of every change of state outside of the store: the log itself, and the outbox
 * in which the store keeps what the log has not got yet.
 */
import type { Channel, TimelineEvent } from '../model.ts'

/** Consecutive changes of state of one notification. */
export interface LoggedEvents {
  readonly tenant: string
  readonly recipient: string
  readonly notificationId: string
  /** The channel as it is after these changes. */
  readonly channel: Channel
  /**
   * The position of the first one among all changes of the notification, from 0. Notification, instant and position name
   * an entry of the log: written again, it is the same row.
   */
  readonly seq: number
  readonly events: readonly TimelineEvent[]
}

/** The erasure of a recipient, whose earlier entries are to be removed. */
export interface LoggedErasure {
  readonly tenant: string
  readonly recipient: string
  /** Epoch ms. */
  readonly erasedAt: number
}

export type LogRecord = LoggedEvents | LoggedErasure

export function isErasure(record: LogRecord): record is LoggedErasure {
  return 'erasedAt' in record
}

/** The number of entries of the log that a record makes; an erasure counts as one. */
export const entriesOf = (record: LogRecord): number => (isErasure(record) ? 1 : record.events.length)

/** The records of one commit, or of several that were written together. */
export interface OutboxRow {
  readonly position: number
  /** The number of entries that were put in. Fewer in `records`: the row is damaged. */
  readonly entries: number
  readonly records: readonly LogRecord[]
}

/** Records that the log has not got yet. Each is written by the commit that changes the state, or not at all. */
export interface Outbox {
  /**
   * Reads the rows with the lowest positions: about `limit` entries, at least one row, and the same rows again until they are
   * removed. The changes of one notification stand in their order; commits of several writers may stand in another.
   */
  read(limit: number): Promise<readonly OutboxRow[]>
  /** Removes rows by their positions. */
  remove(positions: readonly number[]): Promise<void>
  /** The number of entries that wait. */
  size(): Promise<number>
}

export interface KeepsOutbox {
  /** Changes of state that the delivery log has not got yet; absent where no log is kept. */
  readonly outbox?: Outbox
}

/** One change of state as the log has it. */
export interface LogEntry extends TimelineEvent {
  readonly seq: number
  readonly channel: Channel
}

interface LoggedNotification {
  readonly notificationId: string
  readonly tenant: string
  readonly recipient: string
  /** In the order of the changes. */
  readonly entries: readonly LogEntry[]
}

export interface DeliveryLog {
  /**
   * Resolves when the log has all of them. Rejects where it may not have some: they are written again. `readAt` is an
   * instant before they were read from the outbox, epoch ms: an erasure that was read later holds against them, and one of
   * them against nothing that was read later, however late they are written.
   */
  write(records: readonly LogRecord[], readAt: number): Promise<void>
  /** Finds what is logged of a notification, by its id alone. */
  notification(id: string): Promise<LoggedNotification | undefined>
  close(): Promise<void>
}
