/**
 * Encodes changes for the writer: plain values as bytes (bytes.ts), read from front to back. The `Recorder` writes
 * and the `Decoder` (decoder.ts) reads the fields in the same order.
 */
import { jsonOf } from '../../../content.ts'
import type { Job, Move, Notification, SharedContent } from '../../../model.ts'
import { isLegalPath, revisionOf } from '../../../model.ts'
import type { AccountRecord, Change, DigestWrite, JobWrite, StoredAnswer } from '../../../ports.ts'
import { piecesOfWork } from '../job-work.ts'
import type { InParts } from '../tables/parts.ts'
import { ByteWriter } from './bytes.ts'
import { isCountedApart, statusCodes, throttledFlag } from './codes.ts'
import { putLong, putShort } from './row-bytes.ts'
import type { LongRow, ShortRow } from './rows.ts'

/** Consecutive changes: for each the number of its writes, then each write after its `Op`. */
export interface ChangeLog {
  readonly bytes: Uint8Array<ArrayBuffer>
  /** The end position of each change. */
  readonly ends: readonly number[]
}

export const Op = {
  accept: 0,
  move: 1,
  digest: 2,
  recipient: 3,
  answer: 4,
  job: 5,
  account: 6,
  content: 7,
  part: 8,
} as const

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

/** A job write; a new job has no `before`, and `work` as JSON. */
export interface ShortJobWrite {
  readonly before: Pick<Job, 'status' | 'taken'> | undefined
  readonly after: Job
  readonly work: Uint8Array
  /** The work is in parts, and `work` is empty. */
  readonly parts: InParts | undefined
}

/** A new shared content as JSON, beside the fields that the writer reads. */
export interface ShortContent extends Pick<SharedContent, 'id' | 'tenant' | 'bytes'> {
  readonly body: Uint8Array
  /** The content is in parts, and `body` is empty. */
  readonly parts: InParts | undefined
}

/** One part of a large value. */
export interface ShortPart {
  readonly key: number
  readonly number: number
  readonly body: Uint8Array
}

/** The values of a change that were written ahead, by their content or job write. */
export type WrittenAhead = ReadonlyMap<object, InParts>

const nothingAhead: WrittenAhead = new Map()

/** The content of a notification as it is counted; `own` in bytes. */
export interface ContentCount {
  readonly own: number
  readonly shared: string | null
}

export const digestKinds = [
  'join',
  'open',
  'postpone',
  'close',
] as const satisfies readonly DigestWrite['kind'][]

/** Replaces the number of items that a digest still collects, where the writer must not check it. */
export const unchecked = -1

/** Encodes changes until they are sent. */
export class Recorder {
  readonly #writer = new ByteWriter()
  #ends: number[] = []

  /**
   * Encodes a change; returns its size in bytes.
   * @throws TypeError for a path that the transition table does not allow; then nothing of the change is in the log.
   */
  put(change: Change, ahead = nothingAhead): number {
    checkPaths(change)
    return this.#record(() => putChange(this.#writer, change, ahead))
  }

  /** Encodes a part of a large value as a change of its own; returns its size in bytes. */
  putPart({ key, number, body }: ShortPart): number {
    return this.#record(() => {
      put(this.#writer, 1, Op.part, key, number)
      this.#writer.pieces([body])
    })
  }

  #record(encode: () => void): number {
    const begin = this.#writer.at
    try {
      encode()
    } catch (error) {
      this.#writer.rewind(begin)
      throw error
    }
    this.#ends.push(this.#writer.at)
    return this.#writer.at - begin
  }

  /** Removes the last change and returns it as a change log of its own. */
  cutLast(): ChangeLog {
    this.#ends.pop()
    const bytes = this.#writer.cutFrom(this.#ends.at(-1) ?? 0)
    return { bytes, ends: [bytes.length] }
  }

  /** Returns the recorded log; the next change begins a new one. */
  cut(): ChangeLog {
    const ends = this.#ends
    this.#ends = []
    return { bytes: this.#writer.cut(), ends }
  }
}

/** Splits a log into one log per change. */
export function changesOf({ bytes, ends }: ChangeLog): readonly ChangeLog[] {
  return ends.map((end, change) => {
    const begin = change === 0 ? 0 : ends[change - 1]!
    return { bytes: bytes.subarray(begin, end), ends: [end - begin] }
  })
}

function putChange(writer: ByteWriter, change: Change, ahead: WrittenAhead): void {
  const { digests = [], answer, moves = [], accept = [], recipients = [], jobs = [], accounts = [] } = change
  const { contents = [] } = change
  const answers = answer === undefined ? 0 : 1
  const lists = [digests, moves, accept, recipients, jobs, accounts, contents]
  writer.number(lists.reduce((sum, { length }) => sum + length, answers))
  for (const content of contents) putContent(writer, content, ahead.get(content))
  for (const write of jobs) putJob(writer, write, ahead.get(write))
  for (const write of digests) putDigest(writer, write)
  if (answer !== undefined) putAnswer(writer, answer)
  for (const move of moves) putMove(writer, move)
  for (const notification of accept) {
    writer.number(Op.accept)
    putLong(writer, notification)
    putShort(writer, notification)
    putCount(writer, notification)
  }
  for (const recipient of recipients) {
    writer.number(Op.recipient)
    put(writer, recipient.tenant, recipient.id, JSON.stringify(recipient))
  }
  for (const record of accounts) {
    const { channel, provider, account } = record
    writer.number(Op.account)
    put(writer, channel, provider, account, isEmpty(record) ? '' : JSON.stringify(record))
  }
}

/** Writes numbers and texts; throws for other types, because nothing after such a value could be decoded. */
function put(writer: ByteWriter, ...values: readonly (string | number)[]): void {
  for (const value of values) {
    if (typeof value === 'string') writer.text(value)
    else if (typeof value === 'number') writer.number(value)
    else throw new TypeError(`a ${typeof value} cannot be written`)
  }
}

function isEmpty({ blockedUntil, breaker, use }: AccountRecord): boolean {
  return blockedUntil === undefined && breaker === undefined && use === undefined
}

function putMove(writer: ByteWriter, { before, after }: Move): void {
  const rewritten =
    after.decision !== before.decision ||
    after.channel !== before.channel ||
    after.requestedChannel !== before.requestedChannel
  writer.number(Op.move)
  writer.text(after.id)
  writer.text(after.tenant)
  writer.number(statusCodes[before.status])
  writer.number(revisionOf(before))
  writer.number(isCountedApart(statusCodes[before.status]) && throttledFlag(before) ? 1 : 0)
  writer.number(before.dueAt)
  putShort(writer, after)
  writer.number(rewritten ? 1 : 0)
  if (rewritten) putLong(writer, after)
  putCount(writer, after)
}

/** The content as one JSON text, in pieces that may be encoded already. */
export function piecesOfContent({ content, data }: SharedContent): readonly (string | Uint8Array)[] {
  const pieces: (string | Uint8Array)[] = []
  for (const [name, value] of Object.entries({ content, data })) {
    if (value !== undefined) pieces.push(`${pieces.length === 0 ? '{' : ','}"${name}":`, jsonOf(value))
  }
  return pieces.length === 0 ? ['{}'] : [...pieces, '}']
}

function putContent(writer: ByteWriter, content: SharedContent, parts: InParts | undefined): void {
  const { id, tenant, bytes } = content
  writer.number(Op.content)
  put(writer, id, tenant, bytes)
  putParts(writer, parts)
  writer.pieces(parts === undefined ? piecesOfContent(content) : [])
}

function putParts(writer: ByteWriter, parts: InParts | undefined): void {
  writer.number(parts?.key ?? null)
  if (parts !== undefined) writer.number(parts.count)
}

function putCount(writer: ByteWriter, { bytes = 0, shared }: Notification): void {
  writer.number(bytes)
  writer.text(shared?.id ?? null)
}

function putDigest(writer: ByteWriter, write: DigestWrite): void {
  const { kind, digest: d } = write
  writer.number(Op.digest)
  writer.number(digestKinds.indexOf(kind))
  writer.number('left' in write ? write.left : unchecked)
  put(writer, d.id, d.tenant, d.recipient, d.channel, d.category, d.name, d.openedAt, d.closesAt)
}

function putAnswer(writer: ByteWriter, answer: StoredAnswer): void {
  const { tenant, module, method, path, key, createdAt } = answer
  writer.number(Op.answer)
  put(writer, tenant, module, method, path, key, createdAt, JSON.stringify(answer))
}

function putJob(writer: ByteWriter, write: JobWrite, parts: InParts | undefined): void {
  const opens = write.kind === 'open'
  const job = opens ? write.job : write.after
  const { id, tenant, module, createdAt, status, total, taken, refused } = job
  writer.number(Op.job)
  writer.text(opens ? null : write.before.status)
  writer.number(opens ? 0 : write.before.taken)
  put(writer, id, tenant, module, createdAt, status, total, taken, JSON.stringify(refused))
  writer.text(job.shared?.id ?? null)
  writer.number(job.shared?.bytes ?? 0)
  writer.number(job.bytes ?? null)
  putParts(writer, parts)
  writer.pieces(opens && parts === undefined ? piecesOfWork(write.work) : [])
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
