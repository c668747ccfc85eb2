/**
 * The two rows of a notification as they travel. What the sum of a row is over is one text, written at once; beside it
 * stand the lengths of its parts, so that the writer makes the sum over the bytes and cuts the columns out of them.
 */
import type { Notification } from '../../../model.ts'
import { revisionOf } from '../../../model.ts'
import { platformFlag, statusCodes } from './codes.ts'
import type { Eye, Pen } from './pen.ts'
import type { LongRow, ShortRow } from './rows.ts'
import { longText, shortTexts } from './rows.ts'
import { sumOf } from './sum.ts'

const absent = -1
/** Whoever takes the row makes it. */
const sumToCome = 0
/** What stands in the text of a sum for what is absent. */
const nullBytes = 'null'.length

export function putLong(pen: Pen, notification: Notification): void {
  const { id, tenant, to, channel, requestedChannel = null, category, createdAt, job = null } = notification
  const shared = notification.shared?.id ?? null
  const request = requestOf(notification)
  const decision = JSON.stringify(notification.decision)
  const text = longText([
    id,
    tenant,
    to.id,
    channel,
    requestedChannel,
    category,
    createdAt,
    request,
    decision,
    sumToCome,
    job,
    shared,
  ])
  const plain = pen.text(text) === text.length
  const bytesOf = (part: string): number => (plain ? part.length : Buffer.byteLength(part))
  pen.number(bytesOf(id))
  pen.number(bytesOf(tenant))
  pen.number(bytesOf(to.id))
  pen.number(bytesOf(channel))
  pen.number(requestedChannel === null ? absent : bytesOf(requestedChannel))
  pen.number(bytesOf(category))
  pen.number(createdAt)
  pen.number(bytesOf(request))
  pen.number(bytesOf(decision))
  pen.number(job === null ? absent : bytesOf(job))
  pen.number(shared === null ? absent : bytesOf(shared))
}

export function takeLong(eye: Eye): LongRow {
  const length = eye.number()
  let at = eye.skip(length)
  const sum = sumOf(eye.bytes(at, length))
  const whole = eye.between(at, at + length)
  const begin = at
  // Where each letter is a byte, nearly always, the parts are cut out of one text: 9 calls less.
  const plain = whole.length === length
  /** Parts stand one space from each other. */
  const part = (bytes: number): string => {
    const from = at
    at += bytes + 1
    return plain ? whole.slice(from - begin, from - begin + bytes) : eye.between(from, from + bytes)
  }
  const id = part(eye.number())
  const tenant = part(eye.number())
  const recipient = part(eye.number())
  const channel = part(eye.number())
  const asked = eye.number()
  const requestedChannel = asked === absent ? null : part(asked)
  if (asked === absent) at += nullBytes + 1
  const category = part(eye.number())
  const createdAt = eye.number()
  at += `${createdAt}`.length + 1
  const request = part(eye.number())
  const decision = part(eye.number())
  const ofJob = eye.number()
  const job = ofJob === absent ? null : part(ofJob)
  const ofShared = eye.number()
  const shared = ofShared === absent ? null : part(ofShared)
  return [
    id,
    tenant,
    recipient,
    channel,
    requestedChannel,
    category,
    createdAt,
    request,
    decision,
    sum,
    job,
    shared,
  ]
}

export function putShort(pen: Pen, notification: Notification): void {
  const n = notification
  const { dueAt, attempts, firedAt = null, suspects = [], digestId = null, turnedAt = null } = n
  const row: ShortRow = [
    statusCodes[n.status],
    revisionOf(n),
    dueAt,
    attempts,
    firedAt,
    suspects.at(-1) ?? null,
    digestId,
    n.single ? 1 : 0,
    n.undecided ? 1 : 0,
    platformFlag(n) ? 1 : 0,
    // Why it is a dead letter: the reason of the event that made it one.
    n.status === 'dead' ? (n.timeline.at(-1)?.reason ?? null) : null,
    JSON.stringify(n.timeline),
    sumToCome,
    turnedAt,
    suspects.length > 1 ? JSON.stringify(suspects) : null,
  ]
  // Only in the timeline there are texts that others wrote; so what stands around it has a byte for each letter.
  const [before, after] = shortTexts(row)
  pen.text(`${before}${row[11]}${after}`)
  pen.number(before.length)
  pen.number(after.length)
  const [status, revision, , , , suspectAt, , single, undecided, platform, cause, , , , list] = row
  pen.number(status)
  pen.number(revision)
  pen.number(dueAt)
  pen.number(attempts)
  pen.number(firedAt)
  pen.number(suspectAt)
  pen.text(digestId)
  pen.number(single)
  pen.number(undecided)
  pen.number(platform)
  pen.text(cause)
  pen.number(turnedAt)
  pen.text(list)
}

export function takeShort(eye: Eye): ShortRow {
  const length = eye.number()
  const at = eye.skip(length)
  const sum = sumOf(eye.bytes(at, length))
  const timelineAt = at + eye.number()
  const timeline = eye.between(timelineAt, at + length - eye.number())
  const status = eye.number()
  const revision = eye.number()
  const dueAt = eye.number()
  const attempts = eye.number()
  const firedAt = eye.nullable()
  const suspectAt = eye.nullable()
  const digestId = eye.nullableText()
  const single = eye.number()
  const undecided = eye.number()
  const platform = eye.number()
  const cause = eye.nullableText()
  const turnedAt = eye.nullable()
  const suspects = eye.nullableText()
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
    suspects,
  ]
}

/** What never changes. */
function requestOf(notification: Notification): string {
  const { module, to, priority, template, data, content, actor, actors, sendAt, expiresAt, fingerprint } =
    notification
  const { bytes, shared } = notification
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
    sharedBytes: shared?.bytes,
  })
}
