/**
 * Changes for the writer: the rows and keys of each write as plain values, which cross to the engine's thread by a
 * structured clone and are bound to the statements as they are. Measured with the rows, their checksums and both
 * threads, µs of CPU a notification in batches of 100 / of 5: structured clone 7.0 / 12.3, msgpackr 6.7 / 12.7, JSON
 * 8.0 / 14.4, an encoding as bytes of our own 8.0 / 12.9.
 */
import { jsonOf } from '../../../content.ts'
import type { Job, Move, Notification, SharedContent } from '../../../model.ts'
import { isLegalPath, revisionOf } from '../../../model.ts'
import type { ReportedOf } from '../../../ports/recipients.ts'
import type { AccountRecord, Change, DigestWrite, JobWrite, StoredAnswer } from '../../../ports.ts'
import { type LogText, logTextOf } from '../../log-records.ts'
import { isCountedApart, statusCodes, throttledFlag } from '../../status-codes.ts'
import { piecesOfWork } from '../job-work.ts'
import type { InParts } from '../tables/parts.ts'
import { type LongRow, longRowOf, type ShortRow, shortRowOf } from './rows.ts'

/** Consecutive changes, which are sent together. */
export interface ChangeLog {
  readonly changes: readonly ChangeWrites[]
  /** The size of all of them, as that of each is counted. */
  readonly bytes: number
}

/** One change, applied as a whole or not at all. */
export interface ChangeWrites {
  readonly writes: readonly Write[]
  /** Its changes of state for the outbox; absent where no delivery log is kept. */
  readonly log?: LogText | undefined
  /** The length of the texts in it that have no bound, and some bytes for each of the other values. */
  readonly bytes: number
}

export type Write =
  | {
      readonly op: 'accept'
      readonly long: LongRow
      readonly short: ShortRow
      readonly content: ContentCount
    }
  | { readonly op: 'move'; readonly move: ShortMove }
  | { readonly op: 'digest'; readonly write: DigestWrite }
  /** Nothing is written: the change applies only while this holds. */
  | { readonly op: 'reported'; readonly of: ReportedOf }
  | { readonly op: 'recipient'; readonly tenant: string; readonly id: string; readonly body: string }
  | { readonly op: 'answer'; readonly answer: ShortAnswer }
  | { readonly op: 'job'; readonly write: ShortJobWrite }
  | {
      readonly op: 'account'
      readonly channel: string
      readonly provider: string
      readonly account: string
      /** Empty where the record is removed. */
      readonly body: string
    }
  /** The body is empty where the hold ends; with `until` only the one that ends at that instant. */
  | { readonly op: 'hold'; readonly name: string; readonly body: string; readonly until?: number | undefined }
  | { readonly op: 'content'; readonly content: ShortContent }
  | { readonly op: 'part'; readonly part: ShortPart }

/** A move with only the fields that the writer needs. */
export interface ShortMove {
  readonly id: string
  readonly tenant: string
  readonly before: {
    readonly status: number
    readonly revision: number
    readonly isApart: boolean
    readonly dueAt: number
  }
  readonly short: ShortRow
  /** The long row, only where the decision or the channel changed. */
  readonly long: LongRow | undefined
  readonly content: ContentCount
}

/** A stored answer as JSON, beside the parts of its key. */
export interface ShortAnswer
  extends Pick<StoredAnswer, 'tenant' | 'module' | 'method' | 'path' | 'key' | 'createdAt'> {
  readonly body: string
}

/** Bytes that are handed over to the engine's thread without a copy. */
type Bytes = Uint8Array<ArrayBuffer>

/** A job write; a new job has no `before`. */
export interface ShortJobWrite {
  readonly before: Pick<Job, 'status' | 'taken' | 'refused'> | undefined
  readonly after: Job
  /** The work of a new job, as JSON or in parts. */
  readonly work: Bytes | InParts | undefined
}

/** A new shared content, beside the fields that the writer reads. */
export interface ShortContent extends Pick<SharedContent, 'id' | 'tenant' | 'bytes'> {
  /** The content, as JSON or in parts. */
  readonly body: Bytes | InParts
}

/** One part of a large value. */
export interface ShortPart {
  readonly key: number
  readonly number: number
  readonly body: Bytes
}

/** The values of a change that were written ahead, by their content or job write. */
export type WrittenAhead = ReadonlyMap<object, InParts>

const nothingAhead: WrittenAhead = new Map()

/** The content of a notification as it is counted; `own` in bytes. */
export interface ContentCount {
  readonly own: number
  readonly shared: string | null
}

/** Bytes that a row takes beside its texts without bound: ids, numbers, what is around them. */
const rowBytes = 400

export function changeLogOf(changes: readonly ChangeWrites[]): ChangeLog {
  return { changes, bytes: changes.reduce((sum, { bytes }) => sum + bytes, 0) }
}

/** @throws TypeError for a path that the transition table does not allow */
export function writesOf(change: Change, ahead = nothingAhead, isLogged = false): ChangeWrites {
  checkPaths(change)
  const { digests = [], answer, moves = [], accept = [], recipients = [], jobs = [], accounts = [] } = change
  const writes: Write[] = []
  let bytes = 0
  const add = (write: Write, length: number): void => {
    writes.push(write)
    bytes += rowBytes + length
  }
  for (const content of change.contents ?? []) {
    const short = shortContent(content, ahead.get(content))
    add({ op: 'content', content: short }, sizeOf(short.body))
  }
  for (const write of jobs) {
    const short = shortJobWrite(write, ahead.get(write))
    add({ op: 'job', write: short }, sizeOf(short.work))
  }
  for (const write of digests) add({ op: 'digest', write }, 0)
  if (answer !== undefined) {
    const short = shortAnswer(answer)
    add({ op: 'answer', answer: short }, short.body.length)
  }
  for (const each of moves) {
    const move = shortMove(each)
    add({ op: 'move', move }, lengthOf(move.long, move.short))
  }
  for (const notification of accept) {
    const long = longRowOf(notification)
    const short = shortRowOf(notification)
    add({ op: 'accept', long, short, content: countOf(notification) }, lengthOf(long, short))
  }
  for (const of of change.reportedOf ?? []) add({ op: 'reported', of }, 0)
  for (const recipient of recipients) {
    const { tenant, id } = recipient
    const body = JSON.stringify(recipient)
    add({ op: 'recipient', tenant, id, body }, body.length)
  }
  for (const record of accounts) {
    const { channel, provider, account } = record
    const body = isEmpty(record) ? '' : JSON.stringify(record)
    add({ op: 'account', channel, provider, account, body }, body.length)
  }
  for (const write of change.holds ?? []) {
    if (write.kind === 'end') add({ op: 'hold', name: write.name, body: '', until: write.until }, 0)
    else {
      const body = JSON.stringify(write.hold)
      add({ op: 'hold', name: write.hold.name, body }, body.length)
    }
  }
  const log = isLogged ? logTextOf(change) : undefined
  return log === undefined ? { writes, bytes } : { writes, bytes: bytes + log.text.length, log }
}

/** A part of a large value as a change of its own. The bytes are copied. */
export function partWrites({ key, number }: Omit<ShortPart, 'body'>, body: Uint8Array): ChangeWrites {
  const part = { key, number, body: new Uint8Array(body) }
  return { writes: [{ op: 'part', part }], bytes: body.length }
}

/** The buffers in a change log that are transferred to another thread. */
export function buffersIn({ changes }: ChangeLog): ArrayBuffer[] {
  const buffers: ArrayBuffer[] = []
  for (const { writes } of changes)
    for (const write of writes) {
      const bytes = bytesOf(write)
      if (bytes instanceof Uint8Array) buffers.push(bytes.buffer)
    }
  return buffers
}

function bytesOf(write: Write): Bytes | InParts | undefined {
  switch (write.op) {
    case 'content':
      return write.content.body
    case 'job':
      return write.write.work
    case 'part':
      return write.part.body
    default:
      return undefined
  }
}

const sizeOf = (value: Bytes | InParts | undefined): number =>
  value instanceof Uint8Array ? value.length : 0

const lengthOf = (long: LongRow | undefined, short: ShortRow): number =>
  (long === undefined ? 0 : long[7].length + long[8].length) + short[11].length

function isEmpty({ blockedUntil, breaker, use }: AccountRecord): boolean {
  return blockedUntil === undefined && breaker === undefined && use === undefined
}

const countOf = ({ bytes = 0, shared }: Notification): ContentCount => ({
  own: bytes,
  shared: shared?.id ?? null,
})

function shortMove({ before, after }: Move): ShortMove {
  const rewritten =
    after.decision !== before.decision ||
    after.channel !== before.channel ||
    after.requestedChannel !== before.requestedChannel
  const status = statusCodes[before.status]
  return {
    id: after.id,
    tenant: after.tenant,
    before: {
      status,
      revision: revisionOf(before),
      isApart: isCountedApart(status) && throttledFlag(before),
      dueAt: before.dueAt,
    },
    short: shortRowOf(after),
    long: rewritten ? longRowOf(after) : undefined,
    content: countOf(after),
  }
}

function shortAnswer(answer: StoredAnswer): ShortAnswer {
  const { tenant, module, method, path, key, createdAt } = answer
  return { tenant, module, method, path, key, createdAt, body: JSON.stringify(answer) }
}

function shortContent(content: SharedContent, parts: InParts | undefined): ShortContent {
  const { id, tenant, bytes } = content
  return {
    id,
    tenant,
    bytes,
    body: parts ?? joined(piecesOfContent(content)),
  }
}

function shortJobWrite(write: JobWrite, parts: InParts | undefined): ShortJobWrite {
  if (write.kind === 'move') {
    const { status, taken, refused } = write.before
    return { before: { status, taken, refused }, after: write.after, work: undefined }
  }
  return { before: undefined, after: write.job, work: parts ?? joined(piecesOfWork(write.work)) }
}

/** The content as one JSON text, in pieces that may be encoded already. */
export function piecesOfContent({ content, data }: SharedContent): readonly (string | Uint8Array)[] {
  const pieces: (string | Uint8Array)[] = []
  for (const [name, value] of Object.entries({ content, data })) {
    if (value !== undefined) pieces.push(`${pieces.length === 0 ? '{' : ','}"${name}":`, jsonOf(value))
  }
  return pieces.length === 0 ? ['{}'] : [...pieces, '}']
}

/** The pieces in a buffer of their own, which can be transferred. */
function joined(pieces: readonly (string | Uint8Array)[]): Bytes {
  const encoded = pieces.map((piece) => (typeof piece === 'string' ? Buffer.from(piece) : piece))
  const bytes = new Uint8Array(encoded.reduce((sum, { length }) => sum + length, 0))
  let at = 0
  for (const piece of encoded) {
    bytes.set(piece, at)
    at += piece.length
  }
  return bytes
}

function checkPaths(change: Change): void {
  for (const { id, status, timeline } of change.accept ?? []) {
    const [first, ...rest] = timeline.map((event) => event.status)
    if (first !== 'accepted' || !isLegalPath('accepted', rest) || (rest.at(-1) ?? first) !== status) {
      throw new TypeError(
        `notification ${id} cannot be accepted as ${status} by ${[first, ...rest].join(' → ')}`,
      )
    }
  }
  for (const { before, after, events } of change.moves ?? []) {
    const path = events.map((event) => event.status)
    if (before.id !== after.id || path.at(-1) !== after.status || !isLegalPath(before.status, path)) {
      throw new TypeError(
        `notification ${before.id} cannot come to ${after.status} by ${[before.status, ...path].join(' → ')}`,
      )
    }
  }
}
