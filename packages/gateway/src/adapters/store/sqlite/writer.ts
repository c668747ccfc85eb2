/**
 * Writes a group of changes in one transaction. Each change is all or nothing on its own: one with a single write
 * needs no more than that write's condition, one with several stands in a savepoint. A conflict in one does not
 * disturb the others.
 */
import type { DatabaseSync } from 'node:sqlite'
import type { Move } from '../../../model.ts'
import { isLegalPath } from '../../../model.ts'
import type { Change, CommitResult } from '../../../ports.ts'
import type { Answers } from './answers.ts'
import type { Claims } from './claims.ts'
import { isDue } from './codes.ts'
import type { Digests } from './digests.ts'
import type { NotificationWrites } from './notifications.ts'
import type { Recipients } from './recipients.ts'
import type { Register } from './register.ts'
import type { Tallies } from './tallies.ts'

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

export interface Writer {
  /** One durable transaction; throws what SQLite throws, and then nothing was written. */
  write(changes: readonly Change[]): readonly CommitResult[]
  /** Runs `work` in a durable transaction of its own. */
  transaction<T>(work: () => T): T
}

export function createWriter(parts: WriterParts): Writer {
  const { db, claims, notifications, digests, recipients, answers, tallies, register } = parts
  const begin = db.prepare('BEGIN IMMEDIATE')
  const commit = db.prepare('COMMIT')
  const savepoint = db.prepare('SAVEPOINT change')
  const undo = db.prepare('ROLLBACK TO change')
  const release = db.prepare('RELEASE change')

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

  /** Writes all of it; returns what was not as the change believed. */
  function apply(change: Change): readonly string[] {
    const conflicts: string[] = []
    for (const digest of change.digests ?? []) {
      if (!digests.write(digest)) conflicts.push(digest.digest.id)
    }
    if (change.answer !== undefined && !answers.write(change.answer)) conflicts.push(change.answer.key)
    for (const move of change.moves ?? []) {
      if (!notifications.move(move)) conflicts.push(move.after.id)
    }
    for (const notification of change.accept ?? []) {
      if (!notifications.accept(notification)) conflicts.push(notification.id)
    }
    for (const recipient of change.recipients ?? []) recipients.write(recipient)
    return conflicts
  }

  function applyWhole(change: Change): CommitResult {
    const single = writesOf(change) === 1
    if (!single) savepoint.run()
    const conflicts = apply(change)
    if (conflicts.length > 0) {
      if (!single) undo.run()
    } else {
      tallies.add(change)
    }
    if (!single) release.run()
    return conflicts.length > 0 ? { applied: false, conflicts } : { applied: true }
  }

  /** The late indexes keep up when for two rows noted three are folded. */
  function fold(changes: readonly Change[]): void {
    let accepted = 0
    let answered = 0
    for (const change of changes) {
      accepted += change.accept?.length ?? 0
      if (change.answer !== undefined) answered += 1
    }
    if (accepted > 0) register.fold(Math.ceil(accepted * 1.5))
    if (answered > 0) answers.fold(Math.ceil(answered * 1.5))
  }

  /** Rules 3 and 4 of claims.ts, for a move that is on record. */
  function reclaim({ before, after }: Move): void {
    const due = isDue(after.status)
    if (before.dueAt === after.dueAt && isDue(before.status) === due) return
    if (!claims.concerns(after.dueAt)) return
    const place = { seq: notifications.seqOf(after.id), dueAt: after.dueAt }
    claims.drop(place.seq)
    if (due && place.dueAt > claims.claimedUntil && !claims.isAhead(place)) claims.putBack(place)
  }

  return {
    transaction,
    write(changes) {
      const results = transaction(() => {
        const applied = changes.map(applyWhole)
        fold(changes)
        return applied
      })
      for (const [index, { applied }] of results.entries()) {
        if (applied) for (const move of changes[index]!.moves ?? []) reclaim(move)
      }
      return results
    },
  }
}

function writesOf(change: Change): number {
  const { accept = [], moves = [], digests = [], recipients = [], answer } = change
  return accept.length + moves.length + digests.length + recipients.length + (answer === undefined ? 0 : 1)
}

/** Throws a TypeError for what no caller may ask: a path that the table of transitions does not know. */
export function checkPaths(change: Change): void {
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
