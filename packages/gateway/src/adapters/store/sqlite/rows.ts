/**
 * A notification as the columns of the file, and back. What never changes is one JSON text, `request`; what the
 * queries select by, and what moves change, are columns of their own. Each of its two rows carries a sum.
 */
import type { SQLOutputValue } from 'node:sqlite'
import type { Channel, Decision, Notification, TimelineEvent } from '../../../model.ts'
import type { Admission } from '../../../ports.ts'
import { admissionOf } from '../admission.ts'
import { isPlatformDelayed, statusCodes, statusOf } from './codes.ts'
import { checkSum, sumOf } from './sum.ts'

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
]

export const longRowLength = 11

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

export const shortRowLength = 15

const longColumns =
  'n.id, n.tenant, n.recipient, n.channel, n.requested_channel, n.category, n.created_at, n.request, n.decision, n.sum, n.job'
const shortColumns =
  's.status, s.revision, s.due_at, s.attempts, s.fired_at, s.suspect_at, s.digest_id, s.single, s.undecided, s.platform, s.cause, s.timeline, s.sum, s.turned_at, s.suspects'

/** What `readNotification` takes, from `notifications n` and `states s`. */
export const columns = `s.seq, ${longColumns}, ${shortColumns}`
/** Where the short row begins in it. */
const shortAt = 12

export type Row = readonly SQLOutputValue[]

export function longRow(notification: Notification): LongRow {
  const { id, tenant, to, channel, requestedChannel = null, category, createdAt, job = null } = notification
  const request = requestOf(notification)
  const decision = JSON.stringify(notification.decision)
  const sum = sumOf(
    longText(id, tenant, to.id, channel, requestedChannel, category, createdAt, request, decision, job),
  )
  return [id, tenant, to.id, channel, requestedChannel, category, createdAt, request, decision, sum, job]
}

export function shortRow(notification: Notification): ShortRow {
  const n = notification
  const status = statusCodes[n.status]
  const revision = n.timeline.length
  const { dueAt, attempts, firedAt = null, suspects = [], digestId = null, turnedAt = null } = n
  const suspectAt = suspects.at(-1) ?? null
  const single = n.single ? 1 : 0
  const undecided = n.undecided ? 1 : 0
  const platform = isPlatformDelayed(n) ? 1 : 0
  // Why it is a dead letter: the reason of the event that made it one.
  const cause = n.status === 'dead' ? (n.timeline.at(-1)?.reason ?? null) : null
  const timeline = JSON.stringify(n.timeline)
  const flags = single + 2 * undecided + 4 * platform
  const sum = sumOf(
    shortText(
      status,
      revision,
      dueAt,
      attempts,
      firedAt,
      suspectAt,
      digestId,
      flags,
      cause,
      timeline,
      turnedAt,
    ),
  )
  return [
    status,
    revision,
    dueAt,
    attempts,
    firedAt,
    suspectAt,
    digestId,
    single,
    undecided,
    platform,
    cause,
    timeline,
    sum,
    turnedAt,
    suspects.length > 1 ? JSON.stringify(suspects) : null,
  ]
}

function requestOf(notification: Notification): string {
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

function longText(
  id: string,
  tenant: string,
  recipient: string,
  channel: string,
  requestedChannel: string | null,
  category: string,
  createdAt: number,
  request: string,
  decision: string,
  job: string | null,
): string {
  const common = `${id} ${tenant} ${recipient} ${channel} ${requestedChannel} ${category} ${createdAt} ${request} ${decision}`
  return job === null ? common : `${common} ${job}`
}

/** `suspect_at` and `suspects` are not in it: a restart after a crash writes them over many rows at once. */
function shortText(
  status: number,
  revision: number,
  dueAt: number,
  attempts: number,
  firedAt: number | null,
  _suspectAt: number | null,
  digestId: string | null,
  flags: number,
  cause: string | null,
  timeline: string,
  turnedAt: number | null,
): string {
  // Rows of before there were turns have none in their sum.
  const turned = turnedAt === null ? '' : ` ${turnedAt}`
  return `${status} ${revision} ${dueAt} ${attempts} ${firedAt} ${digestId} ${flags} ${cause} ${timeline}${turned}`
}

export function seqOf(row: Row): number {
  return row[0] as number
}

export function dueAtOf(row: Row): number {
  return row[shortAt + 2] as number
}

export function createdAtOf(row: Row): number {
  return row[7] as number
}

/** @throws what faults.ts takes for damage, where a sum is wrong. */
export function readNotification(row: Row): Notification {
  const [id, tenant, recipient, channel, requestedChannel, category, createdAt, request, decision, sum, job] =
    row.slice(1, shortAt) as unknown as LongRow
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
    platform,
    cause,
    timeline,
    shortSum,
    turnedAt,
    suspects,
  ] = row.slice(shortAt) as unknown as ShortRow
  const flags = single + 2 * undecided + 4 * platform
  checkSum(
    longText(id, tenant, recipient, channel, requestedChannel, category, createdAt, request, decision, job),
    sum,
    `notification ${id}`,
  )
  checkSum(
    shortText(
      status,
      revision,
      dueAt,
      attempts,
      firedAt,
      suspectAt,
      digestId,
      flags,
      cause,
      timeline,
      turnedAt,
    ),
    shortSum,
    `the state of notification ${id}`,
  )
  return {
    id,
    tenant,
    ...(JSON.parse(request) as Request),
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
    timeline: JSON.parse(timeline) as readonly TimelineEvent[],
  }
}

/** The newest has a column of its own, by which the limits look; more than one are a list besides. */
function suspectsOf(newest: number, list: string | null): readonly number[] {
  return list === null ? [newest] : (JSON.parse(list) as readonly number[])
}

export const readAdmission = (row: Row): Admission => admissionOf(readNotification(row))
