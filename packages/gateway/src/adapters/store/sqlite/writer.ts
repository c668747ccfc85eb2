/**
 * Writes a group of changes in one transaction. Each change is all or nothing on its own: one with a single write
 * needs no more than that write's condition, one with several stands in a savepoint. A conflict in one does not
 * disturb the others.
 */
import type { DatabaseSync } from 'node:sqlite'
import type { Answers } from './answers.ts'
import type { Claims } from './claims.ts'
import { isDueCode, isScheduledCode } from './codes.ts'
import type { Digests } from './digests.ts'
import type { NotificationWrites } from './notifications.ts'
import type { Recipients } from './recipients.ts'
import type { Register } from './register.ts'
import type { Tallies } from './tallies.ts'
import type { ShortMove, Tape } from './tape.ts'
import { Head, Op } from './tape.ts'

export interface WriterParts {
  readonly db: DatabaseSync
  readonly claims: Claims
  readonly notifications: NotificationWrites
  readonly digests: Digests
  readonly recipients: Recipients
  readonly answers: Answers
  readonly tallies: Tallies
  readonly register: Register
}

/** `null` where the change was applied, else what was not as it believed. */
export type Outcome = readonly string[] | null

export interface Writer {
  /** One durable transaction; throws what SQLite throws, and then nothing was written. */
  write(tapes: readonly Tape[]): readonly Outcome[]
  /** Runs `work` in a durable transaction of its own. */
  transaction<T>(work: () => T): T
}

/** What a change has written so far, for the counts that follow when it is applied as a whole. */
interface Written {
  readonly counts: [tenant: string, status: number, platformDelayed: boolean, by: 1 | -1][]
  readonly moves: ShortMove[]
  accepted: number
  answered: number
}

const nothing = (): Written => ({ counts: [], moves: [], accepted: 0, answered: 0 })

export function createWriter(parts: WriterParts): Writer {
  const { db, claims, notifications, digests, recipients, answers, tallies, register } = parts
  const begin = db.prepare('BEGIN IMMEDIATE')
  const commit = db.prepare('COMMIT')
  const savepoint = db.prepare('SAVEPOINT change')
  const undo = db.prepare('ROLLBACK TO change')
  const release = db.prepare('RELEASE change')
  const head = new Head()

  function transaction<T>(work: () => T): T {
    let committed = false
    begin.run()
    try {
      const result = work()
      tallies.write()
      commit.run()
      committed = true
      return result
    } finally {
      tallies.forget()
      for (const index of [register, answers]) index.settle(committed)
      // SQLite has rolled back by itself after some errors (full disk, I/O).
      if (!committed && db.isTransaction) db.exec('ROLLBACK')
    }
  }

  /** Makes the next write on the tape; returns the name of what was not as it believed. */
  function writeNext(written: Written): string | undefined {
    const op = head.number()
    switch (op) {
      case Op.accept: {
        const long = head.longRow()
        const short = head.shortRow()
        if (!notifications.accept(long, short)) return long[0]
        written.counts.push([long[1], short[0], isScheduledCode(short[0]) && short[9] === 1, 1])
        written.accepted += 1
        return undefined
      }
      case Op.move: {
        const move = head.move()
        if (!notifications.move(move)) return move.id
        const { tenant, before, short } = move
        written.counts.push([tenant, before.status, before.platformDelayed, -1])
        written.counts.push([tenant, short[0], isScheduledCode(short[0]) && short[9] === 1, 1])
        written.moves.push(move)
        return undefined
      }
      case Op.digest: {
        const write = head.digest()
        return digests.write(write) ? undefined : write.digest.id
      }
      case Op.recipient:
        recipients.write(head.text(), head.text(), head.text())
        return undefined
      case Op.answer: {
        const answer = head.answer()
        written.answered += 1
        return answers.write(answer) ? undefined : answer.key
      }
      default:
        throw new RangeError(`no operation has the code ${op}`)
    }
  }

  function apply(tape: Tape, group: Written): Outcome {
    head.load(tape)
    const writes = head.number()
    const written = nothing()
    const conflicts: string[] = []
    if (writes > 1) savepoint.run()
    for (let left = writes; left > 0; left -= 1) {
      const conflict = writeNext(written)
      if (conflict !== undefined) conflicts.push(conflict)
    }
    if (writes > 1 && conflicts.length > 0) undo.run()
    if (writes > 1) release.run()
    if (conflicts.length > 0) return conflicts
    for (const [tenant, status, platformDelayed, by] of written.counts) {
      tallies.count(tenant, status, platformDelayed, by)
    }
    group.moves.push(...written.moves)
    group.accepted += written.accepted
    group.answered += written.answered
    return null
  }

  /** Rules 3 and 4 of claims.ts, for a move that is on record. */
  function reclaim({ id, before, short }: ShortMove): void {
    const [status, , dueAt] = short
    const due = isDueCode(status)
    if (before.dueAt === dueAt && isDueCode(before.status) === due) return
    if (!claims.concerns(dueAt)) return
    const place = { seq: notifications.seqOf(id), dueAt }
    claims.drop(place.seq)
    if (due && dueAt > claims.claimedUntil && !claims.isAhead(place)) claims.putBack(place)
  }

  return {
    transaction,
    write(tapes) {
      const group = nothing()
      const outcomes = transaction(() => {
        const applied = tapes.map((tape) => apply(tape, group))
        // The late indexes keep up when for two rows noted three are folded.
        register.fold(Math.ceil(group.accepted * 1.5))
        answers.fold(Math.ceil(group.answered * 1.5))
        return applied
      })
      for (const move of group.moves) reclaim(move)
      return outcomes
    },
  }
}
