/**
 * The store as a synchronous thing of plain values: tapes in, rows out. It is the same in a thread of its own (engine-client.ts)
 * and in the thread of its owner, where the simulator has it; what it raises is a value too, so that it can cross.
 */
import type { DatabaseSync } from 'node:sqlite'
import { lineAt } from '../../../adapters/clock.ts'
import type { FieldError } from '../../../errors.ts'
import { SluiceError } from '../../../errors.ts'
import type { TimeLine } from '../../../ports.ts'
import type { ChangeLog } from '../codec/change-log.ts'
import { changesOf } from '../codec/change-log.ts'
import { RowDamage } from '../codec/checksum.ts'
import { createCommitMark } from '../commit-mark.ts'
import { checkHealth, hasCrashed, hashKeyOf, inMemory, markClosed, markOpen } from '../database.ts'
import { createDueCursor } from '../indexes/due-cursor.ts'
import { createDueIndex } from '../indexes/due-index.ts'
import { createRecipientIndex } from '../indexes/recipient-index.ts'
import { prepareRecipientScan } from '../indexes/recipient-scan.ts'
import { prepareScan } from '../indexes/scan.ts'
import { deletingSecurely } from '../secure-delete.ts'
import { diskFault, isDamage } from '../sqlite-errors.ts'
import { prepareAccounts } from '../tables/accounts.ts'
import { prepareAdmissions } from '../tables/admissions.ts'
import { prepareAnswers } from '../tables/answers.ts'
import { prepareCollected } from '../tables/collected.ts'
import { prepareContents } from '../tables/contents.ts'
import { prepareDigests } from '../tables/digests.ts'
import { prepareDue } from '../tables/due.ts'
import type { Erased } from '../tables/erasures.ts'
import { prepareErasures } from '../tables/erasures.ts'
import { prepareJobs } from '../tables/jobs.ts'
import { prepareNotificationWrites } from '../tables/notifications.ts'
import { preparePrune } from '../tables/prune.ts'
import { prepareRecipients } from '../tables/recipients.ts'
import { prepareTallies } from '../tables/tallies.ts'
import { prepareTimeLine } from '../tables/time-line.ts'
import { prepareWaiting } from '../tables/waiting.ts'
import { prepareReads } from './reads.ts'
import type { Outcome } from './writer.ts'
import { createWriter } from './writer.ts'

export interface EngineOptions {
  readonly db: DatabaseSync
  readonly path: string
  /** What the wall clock reads at the opening. */
  readonly now: number
  /** Whether to read the whole file and compare its own indexes with its rows. */
  readonly verify: boolean
}

/** An error as a value. Without a code it is a mistake of this program. */
export interface Fault {
  readonly message: string
  readonly code?: SluiceError['code']
  readonly errors?: readonly FieldError[]
  readonly retryAfterMs?: number
  /** The file is damaged: nothing more may be written. */
  readonly damage?: boolean
  /** One row is damaged: what it is. Everything else goes on. */
  readonly row?: string
}

export type Result = Outcome | { readonly fault: Fault }
export type Engine = ReturnType<typeof createEngine>
/** What an engine can be asked, by name. */
export type Questions = Engine['questions']

export function faultOf(error: unknown, path: string): Fault {
  const known = error instanceof SluiceError ? error : diskFault(error, path)
  if (known === undefined) return { message: error instanceof Error ? error.message : String(error) }
  return {
    message: known.message,
    code: known.code,
    ...(known.errors === undefined ? {} : { errors: known.errors }),
    ...(known.retryAfterMs === undefined ? {} : { retryAfterMs: known.retryAfterMs }),
    ...(isDamage(error) ? { damage: true } : {}),
    ...(error instanceof RowDamage ? { row: error.what } : {}),
  }
}

export function errorOf({ message, code, errors, retryAfterMs, row }: Fault): Error {
  if (code === undefined) return new TypeError(message)
  return new SluiceError(code, message, {
    ...(errors === undefined ? {} : { errors }),
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
    ...(row === undefined ? {} : { row }),
  })
}

/** @throws what SQLite throws; then the connection is still open. */
export function createEngine({ db, path, now, verify }: EngineOptions) {
  const key = hashKeyOf(db)
  const claims = createDueCursor()
  const dueIndex = createDueIndex({ db })
  const due = prepareDue(db, claims, dueIndex)
  const digests = prepareDigests(db)
  const recipients = prepareRecipients(db)
  const tallies = prepareTallies(db)
  const answers = prepareAnswers(db, key)
  const contents = prepareContents(db)
  const jobs = prepareJobs(db, contents)
  const register = createRecipientIndex(db, key)
  const waiting = prepareWaiting(db, register)
  const admissions = prepareAdmissions(db, register)
  const history = preparePrune(db, tallies, register, contents)
  const notifications = prepareNotificationWrites(db, register)
  const accounts = prepareAccounts(db)
  const mark = createCommitMark(db, path === inMemory ? undefined : path)
  const writer = createWriter({
    db,
    claims,
    notifications,
    digests,
    recipients,
    answers,
    jobs,
    accounts,
    contents,
    tallies,
    register,
    due: dueIndex,
    mark,
  })
  const reads = prepareReads(db)
  const timeLine = prepareTimeLine(db)
  const erasures = prepareErasures({ db, register, recipients, jobs, answers, contents })
  // As much as a good many notifications need.
  const probe = db.prepare("INSERT OR REPLACE INTO meta VALUES ('probe', zeroblob(262144))")
  const unprobe = db.prepare("DELETE FROM meta WHERE name = 'probe'")
  const stamp = db.prepare("INSERT OR REPLACE INTO meta VALUES ('ping', ?)")

  function verifyIndexes(): void {
    for (const index of [due, register, answers, contents]) index.verify()
  }

  if (verify) verifyIndexes()
  writer.transaction(() => {
    const line = timeLine.read()
    if (hasCrashed(db)) due.suspect(line === undefined ? now : lineAt(now, line))
    markOpen(db)
  })

  /** Whether the last transaction was refused by the disk: then a row of a few bytes is no proof that there is room. */
  let tookNothing = false

  /** In one transaction; never throws. What the disk does is the trouble of all of them. */
  function write(changeLogs: readonly ChangeLog[]): readonly Result[] {
    try {
      const results = writer.write(changeLogs)
      tookNothing = false
      return results
    } catch (error) {
      const fault = faultOf(error, path)
      tookNothing = fault.code !== undefined
      const single = changeLogs.flatMap(changesOf)
      if (fault.code !== undefined || single.length === 1) return single.map(() => ({ fault }))
      // One of them cannot be written at all (a value of a wrong type): the others must not suffer for it.
      return single.flatMap((changeLog) => write([changeLog]))
    }
  }

  /** In a transaction that leaves nothing in the file of what it takes out. */
  const erasing = <T>(work: () => T): T => deletingSecurely(db, () => writer.transaction(work))

  const questions = {
    ...reads,
    ...waiting,
    ...prepareCollected(db),
    scan: prepareScan(db),
    notedRows: register.notedRows,
    admissions: admissions.read,
    inThrottleQueue: admissions.inThrottleQueue,
    known: prepareRecipientScan(db, register),
    recipient: recipients.find,
    unreadable: () => answers.unreadable,
    answer: answers.find,
    accounts: accounts.read,
    job: jobs.find,
    runningJobs: jobs.running,
    openDigest: digests.find,
    digest: digests.byId,
    dueDigests: digests.due,
    nextDigestAt: digests.earliest,
    nextDueAt: due.earliest,
    releaseDue: due.releaseDue,
    tallies: tallies.read,
    waitingContents: contents.waiting,
    counters: writer.counters,
    claimDue: due.claimDue,
    timeLine: timeLine.read,
    keepTimeLine: (line: TimeLine) => {
      writer.transaction(() => timeLine.write(line))
    },
    eraseBegin: (erased: Erased) => erasing(() => erasures.begin(erased)),
    eraseRows: (erased: Erased, max: number) => erasing(() => erasures.rows(erased, max)),
    eraseAnswers: (erased: Erased, after: number, max: number) =>
      erasing(() => erasures.answers(erased, after, max)),
    eraseFinish: (erased: Erased) => erasing(() => erasures.finish(erased)),
    erasuresPending: erasures.pending,
    /** Nothing of what was overwritten stays in the log; false where somebody who reads is in the way. */
    emptyLog: () => db.prepare('PRAGMA wal_checkpoint(TRUNCATE)').get()?.busy === 0,
    ping: (at: number) => {
      writer.transaction(() => stamp.run(at))
      if (tookNothing) writer.transaction(() => probe.run())
      if (tookNothing) writer.transaction(() => unprobe.run())
      tookNothing = false
    },
    check: () => {
      checkHealth(db, path)
      verifyIndexes()
    },
    pruneAnswers: (before: number, max: number) => erasing(() => answers.prune(before, max)),
    pruneNotifications: (before: number, from: number, max: number) =>
      erasing(() => history.prune(before, from, max)),
    pruneJobs: (before: number, max: number) => erasing(() => jobs.prune(before, max)),
    close: () => {
      try {
        markClosed(db)
      } finally {
        // Where the mark cannot be written, the next opening takes this end for a crash: safe. SQLite itself folds
        // the log into the file, if there is room.
        db.close()
        mark.close()
      }
    },
  }
  return { write, questions, claimedUntil: () => claims.claimedUntil }
}
