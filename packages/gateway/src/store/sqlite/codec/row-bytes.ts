/**
 * The two rows of a notification as bytes. The text that a row's checksum covers is written in one piece, with the
 * lengths of its parts beside it, so that the writer computes the checksum over the bytes and cuts the columns out of
 * them.
 */
import type { Notification } from '../../../model.ts'
import { revisionOf } from '../../../model.ts'
import type { ByteReader, ByteWriter } from './bytes.ts'
import { checksumOf } from './checksum.ts'
import { statusCodes, throttledFlag } from './codes.ts'
import type { LongRow, ShortRow } from './rows.ts'
import { longText, shortTexts } from './rows.ts'

const absent = -1
/** A placeholder: the reader of the row computes its checksum. */
const checksumToCome = 0
/** The length of an absent value in the text of a checksum. */
const nullBytes = 'null'.length

export function putLong(writer: ByteWriter, notification: Notification): void {
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
    checksumToCome,
    job,
    shared,
  ])
  const plain = writer.text(text) === text.length
  const bytesOf = (part: string): number => (plain ? part.length : Buffer.byteLength(part))
  writer.number(bytesOf(id))
  writer.number(bytesOf(tenant))
  writer.number(bytesOf(to.id))
  writer.number(bytesOf(channel))
  writer.number(requestedChannel === null ? absent : bytesOf(requestedChannel))
  writer.number(bytesOf(category))
  writer.number(createdAt)
  writer.number(bytesOf(request))
  writer.number(bytesOf(decision))
  writer.number(job === null ? absent : bytesOf(job))
  writer.number(shared === null ? absent : bytesOf(shared))
}

export function takeLong(reader: ByteReader): LongRow {
  const length = reader.number()
  let at = reader.skip(length)
  const sum = checksumOf(reader.bytes(at, length))
  const whole = reader.between(at, at + length)
  const begin = at
  // Where each character is one byte, nearly always, the parts are cut out of one text: 9 calls less.
  const plain = whole.length === length
  /** Reads a part; parts are separated by one space. */
  const part = (bytes: number): string => {
    const from = at
    at += bytes + 1
    return plain ? whole.slice(from - begin, from - begin + bytes) : reader.between(from, from + bytes)
  }
  const id = part(reader.number())
  const tenant = part(reader.number())
  const recipient = part(reader.number())
  const channel = part(reader.number())
  const requestedBytes = reader.number()
  const requestedChannel = requestedBytes === absent ? null : part(requestedBytes)
  if (requestedBytes === absent) at += nullBytes + 1
  const category = part(reader.number())
  const createdAt = reader.number()
  at += `${createdAt}`.length + 1
  const request = part(reader.number())
  const decision = part(reader.number())
  const ofJob = reader.number()
  const job = ofJob === absent ? null : part(ofJob)
  const ofShared = reader.number()
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

export function putShort(writer: ByteWriter, notification: Notification): void {
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
    throttledFlag(n) ? 1 : 0,
    // The dead letter's cause: the reason of the event that made it one.
    n.status === 'dead' ? (n.timeline.at(-1)?.reason ?? null) : null,
    JSON.stringify(n.timeline),
    checksumToCome,
    turnedAt,
    suspects.length > 1 ? JSON.stringify(suspects) : null,
  ]
  // Only the timeline holds texts written by others; the text around it has one byte for each character.
  const [before, after] = shortTexts(row)
  writer.text(`${before}${row[11]}${after}`)
  writer.number(before.length)
  writer.number(after.length)
  const [status, revision, , , , suspectAt, , single, undecided, platform, cause, , , , list] = row
  writer.number(status)
  writer.number(revision)
  writer.number(dueAt)
  writer.number(attempts)
  writer.number(firedAt)
  writer.number(suspectAt)
  writer.text(digestId)
  writer.number(single)
  writer.number(undecided)
  writer.number(platform)
  writer.text(cause)
  writer.number(turnedAt)
  writer.text(list)
}

export function takeShort(reader: ByteReader): ShortRow {
  const length = reader.number()
  const at = reader.skip(length)
  const sum = checksumOf(reader.bytes(at, length))
  const timelineAt = at + reader.number()
  const timeline = reader.between(timelineAt, at + length - reader.number())
  const status = reader.number()
  const revision = reader.number()
  const dueAt = reader.number()
  const attempts = reader.number()
  const firedAt = reader.nullable()
  const suspectAt = reader.nullable()
  const digestId = reader.nullableText()
  const single = reader.number()
  const undecided = reader.number()
  const platform = reader.number()
  const cause = reader.nullableText()
  const turnedAt = reader.nullable()
  const suspects = reader.nullableText()
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

/** The JSON of the fields that never change. */
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
