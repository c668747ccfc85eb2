/** Makes the records of the delivery log of a change. Pure. */
import { type Notification, revisionOf, type TimelineEvent } from '../model.ts'
import { entriesOf, type LoggedErasure, type LogRecord } from '../ports/delivery-log.ts'
import type { Change } from '../ports.ts'

/** The changes of state in a change, in its order. */
export function logRecordsOf({ accept = [], moves = [] }: Change): readonly LogRecord[] {
  return [
    ...accept.map((notification) => record(notification, 0, notification.timeline)),
    ...moves.map(({ before, after, events }) => record(after, revisionOf(before), events)),
  ]
}

function record(
  { tenant, to, id, channel }: Notification,
  seq: number,
  events: readonly TimelineEvent[],
): LogRecord {
  return { tenant, recipient: to.id, notificationId: id, channel, seq, events }
}

export const erasureRecord = (tenant: string, recipient: string, erasedAt: number): LoggedErasure => ({
  tenant,
  recipient,
  erasedAt,
})

/** Records as JSON, without the brackets of a list: those of several changes are joined by commas. */
export interface LogText {
  readonly text: string
  /** The number of entries in it. */
  readonly entries: number
}

/** The records of a change as text; undefined where it changes no state. */
export function logTextOf(change: Change): LogText | undefined {
  const records = logRecordsOf(change)
  return records.length === 0 ? undefined : textOf(records)
}

export function textOf(records: readonly LogRecord[]): LogText {
  const entries = records.reduce((sum, each) => sum + entriesOf(each), 0)
  return { text: JSON.stringify(records).slice(1, -1), entries }
}

/** Joins the texts of several changes to one list. */
export function joinedText(texts: readonly LogText[]): LogText {
  return {
    text: `[${texts.map(({ text }) => text).join(',')}]`,
    entries: texts.reduce((sum, { entries }) => sum + entries, 0),
  }
}
