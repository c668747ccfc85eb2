/**
 * Writes a group of changes in one transaction. Each change is all or nothing on its own: one with a single write
 * needs no more than that write's condition, one with several runs in a savepoint. A conflict in one does not disturb
 * the others.
 */
import type { DatabaseSync } from 'node:sqlite'
import type { Conflict, DigestWrite } from '../../../ports.ts'
import type { LogText } from '../../log-records.ts'
import { isCountedApart, isDueCode, isFinalCode, statusCodes } from '../../status-codes.ts'
import type { ChangeLog, ChangeWrites, ContentCount, ShortMove, Write } from '../codec/change-log.ts'
import type { ShortRow } from '../codec/rows.ts'
import type { CommitMark } from '../commit-mark.ts'
import type { DueCursor, OwnedPlace } from '../indexes/due-cursor.ts'
import type { DueIndex } from '../indexes/due-index.ts'
import type { RecipientIndex } from '../indexes/recipient-index.ts'
import type { Accounts } from '../tables/accounts.ts'
import type { Answers } from '../tables/answers.ts'
import type { Contents } from '../tables/contents.ts'
import type { Digests } from '../tables/digests.ts'
import type { Erasures } from '../tables/erasures.ts'
import type { Holds } from '../tables/holds.ts'
import type { Jobs } from '../tables/jobs.ts'
import type { NotificationWrites } from '../tables/notifications.ts'
import type { OutboxWrites } from '../tables/outbox.ts'
import type { Parts } from '../tables/parts.ts'
import type { Recipients } from '../tables/recipients.ts'
import type { Tallies } from '../tables/tallies.ts'

export interface WriterParts {
  readonly db: DatabaseSync
  readonly dueCursor: DueCursor
  readonly notifications: NotificationWrites
  readonly digests: Digests
  readonly recipients: Recipients
  readonly answers: Answers
  readonly jobs: Jobs
  readonly accounts: Accounts
  readonly holds: Holds
  readonly erasures: Pick<Erasures, 'isLeft'>
  readonly outbox: OutboxWrites
  readonly contents: Contents
  readonly parts: Pick<Parts, 'write'>
  readonly tallies: Tallies
  readonly recipientIndex: RecipientIndex
  readonly due: DueIndex
  readonly mark: CommitMark
}

/** `null` where the change was applied, else the records that had changed. */
export type Outcome = readonly Conflict[] | null

export interface Writer {
  /** Runs one durable transaction; throws SQLite's error, and then nothing was written. One outcome a change. */
  write(changeLogs: readonly ChangeLog[]): readonly Outcome[]
  /** Changes since the opening, and the transactions that they shared, each of them one fsync. */
  counters(): { readonly transactions: number; readonly changes: number }
  /** Runs `work` in a durable transaction of its own. */
  transaction<T>(work: () => T): T
}

/** The due instant of a status that can be due; undefined for the others. */
const dueAtOf = (status: number, dueAt: number): number | undefined => (isDueCode(status) ? dueAt : undefined)

/** The writes of a change so far, for the counts that follow when it is applied as a whole. */
interface Written {
  readonly counts: [tenant: string, status: number, isApart: boolean, by: 1 | -1, bytes: number][]
  readonly references: [content: string, refs: number, waiting: number][]
  readonly moves: { readonly seq: number; readonly move: ShortMove }[]
  /** Notifications accepted while a tenant lags. */
  readonly due: OwnedPlace[]
  /** Digest writes whose item counts are checked after the rest of the change. */
  readonly closings: DigestWrite[]
  readonly log: LogText[]
  accepted: number
  answered: number
}

const nothing = (): Written => ({
  counts: [],
  references: [],
  moves: [],
  due: [],
  closings: [],
  log: [],
  accepted: 0,
  answered: 0,
})

const isApart = (short: ShortRow): boolean => isCountedApart(short[0]) && short[9] === 1

/**
 * The reference to content that waits for its notification to end; a notification that no pool serves counts in no
 * bound.
 */
const waitingBy = (status: number, apart: boolean): 0 | 1 =>
  isFinalCode(status) || (status === statusCodes.dead && apart) ? 0 : 1

/** Counts a notification in its new status. */
function countIn(written: Written, tenant: string, short: ShortRow, content: ContentCount): void {
  const own = isFinalCode(short[0]) ? 0 : content.own
  written.counts.push([tenant, short[0], isApart(short), 1, own])
}

export function createWriter(parts: WriterParts): Writer {
  const {
    db,
    dueCursor,
    notifications,
    digests,
    recipients,
    answers,
    jobs,
    accounts,
    tallies,
    recipientIndex,
    due,
  } = parts
  const { contents, erasures, holds, outbox, mark } = parts
  const largeValues = parts.parts
  const begin = db.prepare('BEGIN IMMEDIATE')
  const commit = db.prepare('COMMIT')
  const savepoint = db.prepare('SAVEPOINT change')
  const undo = db.prepare('ROLLBACK TO change')
  const release = db.prepare('RELEASE change')
  /** Rows of the due index that the next transaction is to flush. */
  let flushDebt = 0
  let transactions = 0
  let changes = 0

  function transaction<T>(work: () => T): T {
    let committed = false
    begin.run()
    try {
      due.flush(flushDebt)
      const result = work()
      tallies.write()
      contents.flush()
      mark.number()
      commit.run()
      committed = true
      mark.committed()
      flushDebt = 0
      transactions += 1
      return result
    } finally {
      tallies.forget()
      contents.forget()
      for (const index of [recipientIndex, answers, due, outbox]) index.finish(committed)
      // SQLite has rolled back by itself after some errors (full disk, I/O).
      if (!committed && db.isTransaction) db.exec('ROLLBACK')
    }
  }

  /** Applies a write; returns the record that had changed, if any. */
  function applyWrite(given: Write, written: Written, alone: boolean): Conflict | undefined {
    switch (given.op) {
      case 'accept': {
        const { long, short, content } = given
        const seq = notifications.accept(long, short)
        if (seq === undefined) return { kind: 'notification', key: long[0] }
        const dueAt = dueAtOf(short[0], short[2])
        due.put(seq, undefined, dueAt)
        if (dueCursor.lags.size > 0 && dueAt !== undefined) written.due.push({ seq, dueAt, tenant: long[1] })
        countIn(written, long[1], short, content)
        if (content.shared !== null)
          written.references.push([content.shared, 1, waitingBy(short[0], isApart(short))])
        written.accepted += 1
        return undefined
      }
      case 'move': {
        const { move } = given
        const seq = notifications.move(move)
        if (seq === undefined) return { kind: 'notification', key: move.id }
        const { tenant, before, short, content } = move
        due.put(seq, dueAtOf(before.status, before.dueAt), dueAtOf(short[0], short[2]))
        const own = isFinalCode(before.status) ? 0 : content.own
        written.counts.push([tenant, before.status, before.isApart, -1, -own])
        countIn(written, tenant, short, content)
        const waits = waitingBy(short[0], isApart(short)) - waitingBy(before.status, before.isApart)
        if (content.shared !== null && waits !== 0) written.references.push([content.shared, 0, waits])
        written.moves.push({ seq, move })
        return undefined
      }
      case 'digest': {
        const { write } = given
        // A change of one write has no savepoint to roll back to; its count before and after is the same.
        const changed: Conflict = { kind: 'digest', key: write.digest.id }
        if (alone && !digests.holds(write)) return changed
        written.closings.push(write)
        return digests.write(write) ? undefined : changed
      }
      case 'reported': {
        const { of } = given
        return erasures.isLeft(of) ? undefined : { kind: 'erased', key: of.recipient }
      }
      case 'recipient':
        recipients.write(given.tenant, given.id, given.body)
        return undefined
      case 'answer':
        written.answered += 1
        return answers.write(given.answer) ? undefined : { kind: 'answer', key: given.answer.key }
      case 'job':
        return jobs.write(given.write) ? undefined : { kind: 'job', key: given.write.after.id }
      case 'content':
        return contents.write(given.content) ? undefined : { kind: 'content', key: given.content.id }
      case 'part': {
        const { key, number, body } = given.part
        largeValues.write(key, number, body)
        return undefined
      }
      case 'account':
        accounts.write(given.channel, given.provider, given.account, given.body)
        return undefined
      case 'hold':
        holds.write(given.name, given.body, given.until)
        return undefined
    }
  }

  function apply({ writes, log }: ChangeWrites, group: Written): Outcome {
    const written = nothing()
    const conflicts: Conflict[] = []
    const dueMark = due.mark()
    const several = writes.length > 1
    if (several) savepoint.run()
    for (const write of writes) {
      const conflict = applyWrite(write, written, !several)
      if (conflict !== undefined) conflicts.push(conflict)
    }
    if (conflicts.length === 0)
      for (const write of written.closings)
        if (!digests.holds(write)) conflicts.push({ kind: 'digest', key: write.digest.id })
    if (several && conflicts.length > 0) undo.run()
    if (several) release.run()
    if (conflicts.length > 0) {
      due.undo(dueMark)
      return conflicts
    }
    for (const [tenant, status, isApart, by, bytes] of written.counts) {
      tallies.count(tenant, status, isApart, by, bytes)
    }
    for (const [content, refs, waiting] of written.references) contents.count(content, refs, waiting)
    if (log !== undefined) group.log.push(log)
    group.moves.push(...written.moves)
    group.due.push(...written.due)
    group.accepted += written.accepted
    group.answered += written.answered
    return null
  }

  /** Applies rules 3 and 4 of due-cursor.ts to a move that is on record. */
  function updateCursor(seq: number, { before, short, tenant }: ShortMove): void {
    const dueAt = dueAtOf(short[0], short[2])
    if (dueAtOf(before.status, before.dueAt) === dueAt) return
    dueCursor.drop(seq)
    if (dueAt === undefined) return
    if (dueAt <= dueCursor.claimedUntil) dueCursor.noteKept({ seq, dueAt, tenant })
    else if (!dueCursor.isAhead({ seq, dueAt })) dueCursor.putBack({ seq, dueAt, tenant })
  }

  return {
    transaction,
    counters: () => ({ transactions, changes }),
    write(changeLogs) {
      const group = nothing()
      const outcomes = transaction(() => {
        const applied = changeLogs.flatMap(({ changes }) => changes.map((change) => apply(change, group)))
        outbox.put(group.log)
        // The write-behind indexes keep up when three rows are flushed for every two noted.
        recipientIndex.flush(Math.ceil(group.accepted * 1.5))
        answers.flush(Math.ceil(group.answered * 1.5))
        return applied
      })
      changes += outcomes.length
      flushDebt = Math.ceil(group.accepted * 1.5)
      for (const { seq, move } of group.moves) updateCursor(seq, move)
      for (const place of group.due) if (place.dueAt <= dueCursor.claimedUntil) dueCursor.noteKept(place)
      return outcomes
    },
  }
}
