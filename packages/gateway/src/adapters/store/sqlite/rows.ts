/**
 * A notification as the columns of the file, and back. What never changes is one JSON text, `request`; what the
 * queries select by, and what moves change, are columns of their own.
 */
import type { SQLInputValue, SQLOutputValue } from 'node:sqlite'
import type { Channel, Decision, JsonObject, Notification, TimelineEvent } from '../../../model.ts'
import type { Admission } from '../../../ports.ts'
import { statusOf } from './codes.ts'

type Row = readonly SQLOutputValue[]

/** In the order in which `readNotification` takes them; `n` are notifications, `s` states. */
export const columns = `n.seq, n.id, n.tenant, n.channel, n.requested_channel, n.category, n.created_at, n.request,
  s.status, s.due_at, s.attempts, s.fired_at, s.suspect_at, s.digest_id, s.single, s.undecided, s.revision,
  n.decision, n.opening,
  (SELECT group_concat(body, ',' ORDER BY place) FROM events
    WHERE place BETWEEN n.seq << 20 AND n.seq << 20 | 1048575)`

/** Without what limits do not ask for. */
export const admissionColumns = `n.seq, n.id, n.tenant, n.channel, n.requested_channel, n.category, n.created_at, n.request,
  s.status, s.due_at, s.attempts, s.fired_at, s.suspect_at, s.digest_id, s.single, s.undecided`

type Request = Pick<
  Notification,
  | 'module'
  | 'to'
  | 'priority'
  | 'template'
  | 'data'
  | 'content'
  | 'actor'
  | 'actors'
  | 'sendAt'
  | 'expiresAt'
  | 'fingerprint'
>

export function requestOf(notification: Notification): string {
  const { module, to, priority, template, data, content, actor, actors, sendAt, expiresAt, fingerprint } =
    notification
  return JSON.stringify({
    module,
    to,
    priority,
    template,
    data,
    content,
    actor,
    actors,
    sendAt,
    expiresAt,
    fingerprint,
  })
}

/** Events as they are stored: joined by commas, so that later ones need only be put behind them. */
export function eventsOf(events: readonly TimelineEvent[]): string {
  return JSON.stringify(events).slice(1, -1)
}

export const orNull = <T extends SQLInputValue>(value: T | undefined): T | null => value ?? null

export function seqOf(row: Row): number {
  return row[0] as number
}

export function readNotification(row: Row): Notification {
  const later = row[19] as string | null
  const timeline = JSON.parse(
    later === null ? `[${row[18]}]` : `[${row[18]},${later}]`,
  ) as readonly TimelineEvent[]
  return {
    ...readFacts(row),
    ...optional('requestedChannel', row[4] as Channel | null),
    ...optional('digestId', row[13] as string | null),
    ...(row[14] === 1 ? { single: true } : {}),
    attempts: row[10] as number,
    decision: JSON.parse(row[17] as string) as Decision,
    timeline,
  }
}

function readFacts(row: Row): Request & Omit<Admission, 'actor' | 'actors' | 'template'> {
  const request = JSON.parse(row[7] as string) as Request
  return {
    id: row[1] as string,
    tenant: row[2] as string,
    ...request,
    channel: row[3] as Channel,
    category: row[5] as string,
    createdAt: row[6] as number,
    status: statusOf(row[8] as number),
    dueAt: row[9] as number,
    ...optional('firedAt', row[11] as number | null),
    ...optional('suspectAt', row[12] as number | null),
    ...(row[15] === 1 ? { undecided: true } : {}),
  }
}

export function readAdmission(row: Row): Admission {
  const { data: _data, content: _content, sendAt: _sendAt, expiresAt: _expiresAt, ...facts } = readFacts(row)
  return facts
}

/** `{ [name]: value }`, or nothing where the column is null. */
export function optional<Name extends string, Value>(
  name: Name,
  value: Value | null,
): { readonly [key in Name]?: Value } {
  return (value === null ? {} : { [name]: value }) as { readonly [key in Name]?: Value }
}

export function readJson<T extends object = JsonObject>(text: SQLOutputValue | undefined): T {
  return JSON.parse(text as string) as T
}
