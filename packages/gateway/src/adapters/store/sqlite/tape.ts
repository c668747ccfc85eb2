/**
 * Changes as they travel to the writer: plain values as bytes (pen.ts), read from front to back. What a `Recorder` puts
 * down and what a `Head` (head.ts) takes up stand in the same order.
 */
import { jsonOf } from '../../../content.ts'
import type { Job, Move, Notification, SharedContent } from '../../../model.ts'
import { isLegalPath, revisionOf } from '../../../model.ts'
import type { AccountRecord, Change, DigestWrite, JobWork, JobWrite, StoredAnswer } from '../../../ports.ts'
import { isCountedApart, platformFlag, statusCodes } from './codes.ts'
import { Pen } from './pen.ts'
import { putLong, putShort } from './row-bytes.ts'
import type { LongRow, ShortRow } from './rows.ts'

/** Changes one behind another: of each first the number of writes, then each of them, led by its `Op`. */
export interface Tape {
  readonly bytes: Uint8Array<ArrayBuffer>
  /** Where each change ends. */
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
} as const

/** A move as the writer needs it. */
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
  /** Only where the decision or the channel changed. */
  readonly long: LongRow | undefined
  readonly content: ContentCount
}

/** An answer, its JSON beside the parts of its key. */
export interface ShortAnswer
  extends Pick<StoredAnswer, 'tenant' | 'module' | 'method' | 'path' | 'key' | 'createdAt'> {
  readonly body: string
}

/** A new job has no `before`, and `work` as JSON. */
export interface ShortJobWrite {
  readonly before: Pick<Job, 'status' | 'taken'> | undefined
  readonly after: Job
  readonly work: Uint8Array
}

/** A content that is new, its JSON beside what is looked at. */
export interface ShortContent extends Pick<SharedContent, 'id' | 'tenant' | 'bytes'> {
  readonly body: Uint8Array
}

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

/** In place of the items that a digest still collects, where nobody counts on them. */
export const unchecked = -1

/** Takes changes up until they are sent. */
export class Recorder {
  readonly #pen = new Pen()
  #ends: number[] = []

  /**
   * Answers how many bytes it takes.
   * @throws TypeError for a path that no notification may go, and then nothing of the change is on the tape.
   */
  put(change: Change): number {
    checkPaths(change)
    const begin = this.#pen.at
    try {
      putChange(this.#pen, change)
    } catch (error) {
      this.#pen.rewind(begin)
      throw error
    }
    this.#ends.push(this.#pen.at)
    return this.#pen.at - begin
  }

  /** The last change as a tape of its own. */
  cutLast(): Tape {
    this.#ends.pop()
    const bytes = this.#pen.cutFrom(this.#ends.at(-1) ?? 0)
    return { bytes, ends: [bytes.length] }
  }

  /** The tape so far; the next change begins another one. */
  cut(): Tape {
    const ends = this.#ends
    this.#ends = []
    return { bytes: this.#pen.cut(), ends }
  }
}

/** Each change as a tape of its own. */
export function changesOf({ bytes, ends }: Tape): readonly Tape[] {
  return ends.map((end, change) => {
    const begin = change === 0 ? 0 : ends[change - 1]!
    return { bytes: bytes.subarray(begin, end), ends: [end - begin] }
  })
}

function putChange(pen: Pen, change: Change): void {
  const { digests = [], answer, moves = [], accept = [], recipients = [], jobs = [], accounts = [] } = change
  const { contents = [] } = change
  const answers = answer === undefined ? 0 : 1
  const lists = [digests, moves, accept, recipients, jobs, accounts, contents]
  pen.number(lists.reduce((sum, { length }) => sum + length, answers))
  for (const content of contents) putContent(pen, content)
  for (const write of jobs) putJob(pen, write)
  for (const write of digests) putDigest(pen, write)
  if (answer !== undefined) putAnswer(pen, answer)
  for (const move of moves) putMove(pen, move)
  for (const notification of accept) {
    pen.number(Op.accept)
    putLong(pen, notification)
    putShort(pen, notification)
    putCount(pen, notification)
  }
  for (const recipient of recipients) {
    pen.number(Op.recipient)
    put(pen, recipient.tenant, recipient.id, JSON.stringify(recipient))
  }
  for (const record of accounts) {
    const { channel, provider, account } = record
    pen.number(Op.account)
    put(pen, channel, provider, account, isEmpty(record) ? '' : JSON.stringify(record))
  }
}

/** Numbers and texts, one behind another; throws for what is neither, since nobody could read on behind it. */
function put(pen: Pen, ...values: readonly (string | number)[]): void {
  for (const value of values) {
    if (typeof value === 'string') pen.text(value)
    else if (typeof value === 'number') pen.number(value)
    else throw new TypeError(`a ${typeof value} cannot be written`)
  }
}

function isEmpty({ blockedUntil, breaker, use }: AccountRecord): boolean {
  return blockedUntil === undefined && breaker === undefined && use === undefined
}

function putMove(pen: Pen, { before, after }: Move): void {
  const rewritten =
    after.decision !== before.decision ||
    after.channel !== before.channel ||
    after.requestedChannel !== before.requestedChannel
  pen.number(Op.move)
  pen.text(after.id)
  pen.text(after.tenant)
  pen.number(statusCodes[before.status])
  pen.number(revisionOf(before))
  pen.number(isCountedApart(statusCodes[before.status]) && platformFlag(before) ? 1 : 0)
  pen.number(before.dueAt)
  putShort(pen, after)
  pen.number(rewritten ? 1 : 0)
  if (rewritten) putLong(pen, after)
  putCount(pen, after)
}

function putContent(pen: Pen, { id, tenant, bytes, content, data }: SharedContent): void {
  pen.number(Op.content)
  put(pen, id, tenant, bytes)
  const pieces: (string | Uint8Array)[] = []
  for (const [name, value] of Object.entries({ content, data })) {
    if (value !== undefined) pieces.push(`${pieces.length === 0 ? '{' : ','}"${name}":`, jsonOf(value))
  }
  pen.pieces(pieces.length === 0 ? ['{}'] : [...pieces, '}'])
}

/** What a job has to do, as JSON; the data of recipients may be at hand as such. */
function piecesOf({ message, recipients }: JobWork): readonly (string | Uint8Array)[] {
  const pieces: (string | Uint8Array)[] = [`{"message":${JSON.stringify(message)},"recipients":[`]
  for (const [index, { data, ...to }] of recipients.entries()) {
    const text = `${index === 0 ? '' : ','}${JSON.stringify(to)}`
    if (data === undefined) pieces.push(text)
    else pieces.push(`${text.slice(0, -1)},"data":`, jsonOf(data), '}')
  }
  pieces.push(']}')
  return pieces
}

function putCount(pen: Pen, { bytes = 0, shared }: Notification): void {
  pen.number(bytes)
  pen.text(shared?.id ?? null)
}

function putDigest(pen: Pen, write: DigestWrite): void {
  const { kind, digest: d } = write
  pen.number(Op.digest)
  pen.number(digestKinds.indexOf(kind))
  pen.number('left' in write ? write.left : unchecked)
  put(pen, d.id, d.tenant, d.recipient, d.channel, d.category, d.name, d.openedAt, d.closesAt)
}

function putAnswer(pen: Pen, answer: StoredAnswer): void {
  const { tenant, module, method, path, key, createdAt } = answer
  pen.number(Op.answer)
  put(pen, tenant, module, method, path, key, createdAt, JSON.stringify(answer))
}

function putJob(pen: Pen, write: JobWrite): void {
  const opens = write.kind === 'open'
  const job = opens ? write.job : write.after
  const { id, tenant, module, createdAt, status, total, taken, refused } = job
  pen.number(Op.job)
  pen.text(opens ? null : write.before.status)
  pen.number(opens ? 0 : write.before.taken)
  put(pen, id, tenant, module, createdAt, status, total, taken, JSON.stringify(refused))
  pen.text(job.shared?.id ?? null)
  pen.number(job.shared?.bytes ?? 0)
  pen.number(job.bytes ?? null)
  pen.pieces(opens ? piecesOf(write.work) : [])
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
