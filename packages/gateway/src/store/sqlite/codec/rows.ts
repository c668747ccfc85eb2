/**
 * Converts a notification to the columns of the file, and back. The fields that never change are one JSON text,
 * `request`; columns of their own hold the fields that queries select by and that moves change. Each of its two rows
 * carries a checksum.
 */
import type { SQLOutputValue } from 'node:sqlite'
import type { Channel, Decision, Notification, TimelineEvent } from '../../../model.ts'
import { revisionOf } from '../../../model.ts'
import type { Admission } from '../../../ports.ts'
import { admissionOf } from '../../admission.ts'
import { statusCodes, statusOf, throttledFlag } from '../../status-codes.ts'
import { checksum, checksumOf } from './checksum.ts'

type Request = Pick<
  Notification,
  | 'module'
  | 'to'
  | 'priority'
  | 'template'
  | 'data'
  | 'content'
  | 'bytes'
  | 'actor'
  | 'actors'
  | 'sendAt'
  | 'expiresAt'
  | 'fingerprint'
> & { readonly sharedBytes?: number }

/** The row of `notifications` without its seq. */
export type LongRow = readonly [
  id: string,
  tenant: string,
  recipient: string,
  channel: string,
  requestedChannel: string | null,
  category: string,
  createdAt: number,
  request: string,
  decision: string,
  sum: number,
  job: string | null,
  shared: string | null,
]

/** The row of `states` without its seq. */
export type ShortRow = readonly [
  status: number,
  revision: number,
  dueAt: number,
  attempts: number,
  firedAt: number | null,
  suspectAt: number | null,
  digestId: string | null,
  single: number,
  undecided: number,
  platform: number,
  cause: string | null,
  timeline: string,
  sum: number,
  turnedAt: number | null,
  suspects: string | null,
]

const turnedAtAt = 13

const longColumns =
  'n.id, n.tenant, n.recipient, n.channel, n.requested_channel, n.category, n.created_at, n.request, n.decision, n.sum, n.job, n.shared'
const shortColumns =
  's.status, s.revision, s.due_at, s.attempts, s.fired_at, s.suspect_at, s.digest_id, s.single, s.undecided, s.platform, s.cause, s.timeline, s.sum, s.turned_at, s.suspects'

/** The columns that `readNotification` reads, from `notifications n` and `states s`. */
export const columns = `s.seq, ${longColumns}, ${shortColumns}`
/** The index of the short row's first column in them. */
export const shortAt = 13
/** The index of the due instant in them. */
const dueAtAt = shortAt + 2
/** The index of the timeline in them. */
const timelineAt = shortAt + 11

export type Row = readonly SQLOutputValue[]

/** A placeholder: the engine's thread computes the checksum (`checked`). */
const checksumToCome = 0
const longSumAt = 9
const shortSumAt = 12

/** The row of `notifications` without its checksum. */
export function longRowOf(notification: Notification): LongRow {
  const { id, tenant, to, channel, requestedChannel = null, category, createdAt, job = null } = notification
  const shared = notification.shared?.id ?? null
  const decision = JSON.stringify(notification.decision)
  return [
    id,
    tenant,
    to.id,
    channel,
    requestedChannel,
    category,
    createdAt,
    requestOf(notification),
    decision,
    checksumToCome,
    job,
    shared,
  ]
}

/** The row of `states` without its checksum. */
export function shortRowOf(notification: Notification): ShortRow {
  const { status, timeline, dueAt, attempts, firedAt = null, suspects = [] } = notification
  const { digestId = null, turnedAt = null } = notification
  return [
    statusCodes[status],
    revisionOf(notification),
    dueAt,
    attempts,
    firedAt,
    suspects.at(-1) ?? null,
    digestId,
    notification.single ? 1 : 0,
    notification.undecided ? 1 : 0,
    throttledFlag(notification) ? 1 : 0,
    // The dead letter's cause: the reason of the event that made it one.
    status === 'dead' ? (timeline.at(-1)?.reason ?? null) : null,
    JSON.stringify(timeline),
    checksumToCome,
    turnedAt,
    suspects.length > 1 ? JSON.stringify(suspects) : null,
  ]
}

/** The JSON of the fields that never change. */
function requestOf({ module, to, priority, template, data, content, ...rest }: Notification): string {
  const { actor, actors, sendAt, expiresAt, fingerprint, bytes, shared } = rest
  const sharedBytes = shared?.bytes
  return JSON.stringify({
    content,
    module,
    to,
    priority,
    template,
    data,
    actor,
    actors,
    sendAt,
    expiresAt,
    fingerprint,
    bytes,
    sharedBytes,
  })
}

/** The row with its checksum. */
export function checkedLong(row: LongRow): LongRow {
  return row.with(longSumAt, checksumOf(longText(row))) as unknown as LongRow
}

/** The row with its checksum. */
export function checkedShort(row: ShortRow): ShortRow {
  const [before, after] = shortTexts(row)
  return row.with(shortSumAt, checksumOf(`${before}${row[11]}${after}`)) as unknown as ShortRow
}

/** The text that the checksum covers; the checksum itself is left out. */
export function longText(row: LongRow): string {
  const [id, tenant, recipient, channel, requestedChannel, category, createdAt, request, decision] = row
  const [, , , , , , , , , , job, shared] = row
  const common = `${id} ${tenant} ${recipient} ${channel} ${requestedChannel} ${category} ${createdAt} ${request} ${decision}`
  const withJob = job === null ? common : `${common} ${job}`
  return shared === null ? withJob : `${withJob} ${shared}`
}

/**
 * The checksum's text before the timeline, and after it. `suspect_at` and `suspects` are not in it: a restart after a
 * crash writes them over many rows at once.
 */
export function shortTexts(row: ShortRow): readonly [before: string, after: string] {
  const [status, revision, dueAt, attempts, firedAt, , digestId, single, undecided, platform, cause] = row
  const turnedAt = row[turnedAtAt]
  const flags = single + 2 * undecided + 4 * platform
  return [
    `${status} ${revision} ${dueAt} ${attempts} ${firedAt} ${digestId} ${flags} ${cause} `,
    // Rows from before `turned_at` existed have none in their checksum.
    turnedAt === null ? '' : ` ${turnedAt}`,
  ]
}

export function seqOf(row: Row): number {
  return row[0] as number
}

export function dueAtOf(row: Row): number {
  return row[dueAtAt] as number
}

export function createdAtOf(row: Row): number {
  return row[7] as number
}

/** The length of the JSON text that grows with the request. */
export function requestLengthOf(row: Row): number {
  return (row[8] as string).length
}

/** The length of all JSON texts of a row: request, decision and timeline. */
export function lengthOf(row: Row): number {
  return requestLengthOf(row) + (row[9] as string).length + (row[timelineAt] as string).length
}

/** @throws damage (sqlite-errors.ts) where a checksum does not match */
export function readNotification(row: Row): Notification {
  const long = row.slice(1, shortAt) as unknown as LongRow
  const short = row.slice(shortAt) as unknown as ShortRow
  const [
    id,
    tenant,
    _recipient,
    channel,
    requestedChannel,
    category,
    createdAt,
    request,
    decision,
    sum,
    job,
    shared,
  ] = long
  const [
    status,
    revision,
    dueAt,
    attempts,
    firedAt,
    suspectAt,
    digestId,
    single,
    undecided,
    ,
    _cause,
    timeline,
    shortChecksum,
    turnedAt,
    suspects,
  ] = short
  checksum(longText(long), sum, `notification ${id}`)
  const [before, after] = shortTexts(short)
  checksum(`${before}${timeline}${after}`, shortChecksum, `the state of notification ${id}`)
  const { sharedBytes = 0, ...requested } = JSON.parse(request) as Request
  const events = JSON.parse(timeline) as readonly TimelineEvent[]
  const omitted = revision - events.length
  return {
    id,
    tenant,
    ...requested,
    ...(shared === null ? {} : { shared: { id: shared, bytes: sharedBytes } }),
    ...(job === null ? {} : { job }),
    channel: channel as Channel,
    ...(requestedChannel === null ? {} : { requestedChannel: requestedChannel as Channel }),
    category,
    createdAt,
    status: statusOf(status),
    dueAt,
    decision: JSON.parse(decision) as Decision,
    ...(digestId === null ? {} : { digestId }),
    ...(single === 1 ? { single: true } : {}),
    ...(undecided === 1 ? { undecided: true } : {}),
    attempts,
    ...(turnedAt === null ? {} : { turnedAt }),
    ...(firedAt === null ? {} : { firedAt }),
    ...(suspectAt === null ? {} : { suspects: suspectsOf(suspectAt, suspects) }),
    timeline: events,
    ...(omitted === 0 ? {} : { omitted }),
  }
}

/** The newest instant has a column of its own, by which the limits select; further ones are in a list. */
function suspectsOf(newest: number, list: string | null): readonly number[] {
  return list === null ? [newest] : (JSON.parse(list) as readonly number[])
}

export const readAdmission = (row: Row): Admission => admissionOf(readNotification(row))
