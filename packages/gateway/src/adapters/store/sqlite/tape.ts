/**
 * A change as it travels to the writer: one flat list of plain values, read from front to back. Such a list crosses
 * to another thread for 0.5 µs a notification; and all that is computed from a notification (its JSON, its sums: 3 µs)
 * is computed before it crosses. What `encode` puts down and what a `Head` takes up stand in the same order.
 */
import type { Channel, Job, JobStatus, Move, Refusal } from '../../../model.ts'
import { isLegalPath } from '../../../model.ts'
import type { AccountRecord, Change, DigestWrite, JobWrite, StoredAnswer } from '../../../ports.ts'
import { isPlatformDelayed, statusCodes } from './codes.ts'
import type { LongRow, ShortRow } from './rows.ts'
import { longRow, longRowLength, shortRow, shortRowLength } from './rows.ts'

/** First the number of writes, then each of them, led by its `Op`. */
export type Tape = (string | number | null)[]

export const Op = { accept: 0, move: 1, digest: 2, recipient: 3, answer: 4, job: 5, account: 6 } as const

/** A move as the writer needs it. */
export interface ShortMove {
  readonly id: string
  readonly tenant: string
  readonly before: {
    readonly status: number
    readonly revision: number
    readonly platformDelayed: boolean
    readonly dueAt: number
  }
  readonly short: ShortRow
  /** Only where the decision or the channel changed. */
  readonly long: LongRow | undefined
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
  readonly work: string
}

const digestKinds = ['join', 'open', 'postpone', 'close'] as const satisfies readonly DigestWrite['kind'][]

/** @throws TypeError for a path that no notification may go. */
export function encode(change: Change): Tape {
  const { digests = [], answer, moves = [], accept = [], recipients = [], jobs = [], accounts = [] } = change
  checkPaths(change)
  const answers = answer === undefined ? 0 : 1
  const lists = [digests, moves, accept, recipients, jobs, accounts]
  const writes = lists.reduce((sum, { length }) => sum + length, answers)
  const tape: Tape = [writes]
  for (const write of jobs) putJob(tape, write)
  for (const write of digests) putDigest(tape, write)
  if (answer !== undefined) putAnswer(tape, answer)
  for (const move of moves) putMove(tape, move)
  for (const notification of accept) tape.push(Op.accept, ...longRow(notification), ...shortRow(notification))
  for (const recipient of recipients) {
    tape.push(Op.recipient, recipient.tenant, recipient.id, JSON.stringify(recipient))
  }
  for (const record of accounts) {
    const { channel, provider, account } = record
    tape.push(Op.account, channel, provider, account, isEmpty(record) ? '' : JSON.stringify(record))
  }
  return tape
}

function isEmpty({ blockedUntil, breaker, use }: AccountRecord): boolean {
  return blockedUntil === undefined && breaker === undefined && use === undefined
}

function putMove(tape: Tape, { before, after }: Move): void {
  const rewritten =
    after.decision !== before.decision ||
    after.channel !== before.channel ||
    after.requestedChannel !== before.requestedChannel
  tape.push(
    Op.move,
    after.id,
    after.tenant,
    statusCodes[before.status],
    before.timeline.length,
    before.status === 'scheduled' && isPlatformDelayed(before) ? 1 : 0,
    before.dueAt,
    ...shortRow(after),
    rewritten ? 1 : 0,
  )
  if (rewritten) tape.push(...longRow(after))
}

function putDigest(tape: Tape, { kind, digest: d }: DigestWrite): void {
  const { id, tenant, recipient, channel, category, name, openedAt, closesAt } = d
  tape.push(
    Op.digest,
    digestKinds.indexOf(kind),
    id,
    tenant,
    recipient,
    channel,
    category,
    name,
    openedAt,
    closesAt,
  )
}

function putAnswer(tape: Tape, answer: StoredAnswer): void {
  const { tenant, module, method, path, key, createdAt } = answer
  tape.push(Op.answer, tenant, module, method, path, key, createdAt, JSON.stringify(answer))
}

function putJob(tape: Tape, write: JobWrite): void {
  const opens = write.kind === 'open'
  const { id, tenant, module, createdAt, status, total, taken, refused } = opens ? write.job : write.after
  tape.push(
    Op.job,
    opens ? null : write.before.status,
    opens ? 0 : write.before.taken,
    id,
    tenant,
    module,
    createdAt,
    status,
    total,
    taken,
    JSON.stringify(refused),
    opens ? JSON.stringify(write.work) : '',
  )
}

/** Reads tapes, one after the other. Every method takes what comes next and steps behind it. */
export class Head {
  #tape: Tape = []
  #at = 0

  load(tape: Tape): void {
    this.#tape = tape
    this.#at = 0
  }

  number(): number {
    return this.#tape[this.#at++] as number
  }

  text(): string {
    return this.#tape[this.#at++] as string
  }

  longRow(): LongRow {
    this.#at += longRowLength
    return this.#tape.slice(this.#at - longRowLength, this.#at) as unknown as LongRow
  }

  shortRow(): ShortRow {
    this.#at += shortRowLength
    return this.#tape.slice(this.#at - shortRowLength, this.#at) as unknown as ShortRow
  }

  move(): ShortMove {
    return {
      id: this.text(),
      tenant: this.text(),
      before: {
        status: this.number(),
        revision: this.number(),
        platformDelayed: this.number() === 1,
        dueAt: this.number(),
      },
      short: this.shortRow(),
      long: this.number() === 1 ? this.longRow() : undefined,
    }
  }

  digest(): DigestWrite {
    const kind = digestKinds[this.number()]!
    const digest = {
      id: this.text(),
      tenant: this.text(),
      recipient: this.text(),
      channel: this.text() as Channel,
      category: this.text(),
      name: this.text(),
      openedAt: this.number(),
      closesAt: this.number(),
    }
    return { kind, digest }
  }

  answer(): ShortAnswer {
    return {
      tenant: this.text(),
      module: this.text(),
      method: this.text(),
      path: this.text(),
      key: this.text(),
      createdAt: this.number(),
      body: this.text(),
    }
  }

  job(): ShortJobWrite {
    const status = this.#tape[this.#at++] as JobStatus | null
    const taken = this.number()
    return {
      before: status === null ? undefined : { status, taken },
      after: {
        id: this.text(),
        tenant: this.text(),
        module: this.text(),
        createdAt: this.number(),
        status: this.text() as JobStatus,
        total: this.number(),
        taken: this.number(),
        refused: JSON.parse(this.text()) as readonly Refusal[],
      },
      work: this.text(),
    }
  }
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
