/**
 * The store engine: synchronous, over plain values, change logs in and rows out. It is the same in a thread of its
 * own (engine-client.ts) and in the thread of its owner, where the simulator runs it; its errors are values too, so
 * that they can cross threads.
 */
import type { DatabaseSync } from 'node:sqlite'
import { lineAt } from '../../../adapters/clock.ts'
import { type FieldError, SluiceError } from '../../../errors.ts'
import type { FeedbackEvent, SentRecord, WaitingBounds, WaitingReport } from '../../../ports/feedback.ts'
import type { IntakePosition, PoisonRecord } from '../../../ports/intake.ts'
import type { ListQuery, TimeLine } from '../../../ports.ts'
import type { LogText } from '../../log-records.ts'
import { type ChangeLog, changeLogOf } from '../codec/change-log.ts'
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
import { prepareBacklog } from '../tables/backlog.ts'
import { prepareCollected } from '../tables/collected.ts'
import { prepareContents } from '../tables/contents.ts'
import { prepareDigests } from '../tables/digests.ts'
import { prepareDue } from '../tables/due.ts'
import { type Erased, prepareErasures } from '../tables/erasures.ts'
import { prepareFeedbackWrites } from '../tables/feedback.ts'
import { prepareHolds } from '../tables/holds.ts'
import { prepareIntakeWrites } from '../tables/intake.ts'
import { prepareJobs } from '../tables/jobs.ts'
import { prepareNotificationWrites } from '../tables/notifications.ts'
import { prepareOutboxWrites } from '../tables/outbox.ts'
import { prepareParts } from '../tables/parts.ts'
import { preparePrune } from '../tables/prune.ts'
import { type DuePlace, dueMax } from '../tables/queries.ts'
import { prepareRecipients } from '../tables/recipients.ts'
import { prepareTallies } from '../tables/tallies.ts'
import { prepareTimeLine } from '../tables/time-line.ts'
import { prepareWaiting } from '../tables/waiting.ts'
import { prepareReads } from './reads.ts'
import { createWriter, type Outcome } from './writer.ts'

/** 0.5 MiB: some 1 ms. After every eighth part a checkpoint took up to 6 ms, for two thirds of the time in all. */
const checkpointParts = 2

export interface EngineOptions {
  readonly db: DatabaseSync
  readonly path: string
  /** The wall clock at the opening. */
  readonly now: number
  /** True to read the whole file and compare its own indexes with its rows. */
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
  /** A description of the one damaged row; all other rows stay usable. */
  readonly row?: string
}

export type Result = Outcome | { readonly fault: Fault }
export type Engine = ReturnType<typeof createEngine>
/** The engine's questions, by name. */
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

/** @throws the error of SQLite; then the connection is still open */
export function createEngine({ db, path, now, verify }: EngineOptions) {
  const key = hashKeyOf(db)
  const dueCursor = createDueCursor()
  const dueIndex = createDueIndex({ db })
  const due = prepareDue(db, dueCursor, dueIndex)
  const digests = prepareDigests(db)
  const recipients = prepareRecipients(db)
  const tallies = prepareTallies(db)
  const answers = prepareAnswers(db, key)
  const parts = prepareParts(db)
  const contents = prepareContents(db, parts)
  const jobs = prepareJobs(db, contents, parts)
  const recipientIndex = createRecipientIndex(db, key)
  const waiting = prepareWaiting(db, recipientIndex)
  const admissions = prepareAdmissions(db, recipientIndex)
  const feedback = prepareFeedbackWrites(db)
  const history = preparePrune(db, tallies, recipientIndex, contents, feedback)
  const notifications = prepareNotificationWrites(db, recipientIndex)
  const accounts = prepareAccounts(db)
  const holds = prepareHolds(db)
  const outbox = prepareOutboxWrites(db)
  const intake = prepareIntakeWrites(db)
  const mark = createCommitMark(db, path === inMemory ? undefined : path)
  const erasures = prepareErasures({
    db,
    recipientIndex,
    recipients,
    digests,
    jobs,
    answers,
    contents,
    feedback,
  })
  const writer = createWriter({
    db,
    dueCursor,
    notifications,
    digests,
    recipients,
    answers,
    jobs,
    accounts,
    holds,
    erasures,
    outbox,
    contents,
    parts,
    tallies,
    recipientIndex,
    due: dueIndex,
    mark,
  })
  const reads = prepareReads(db)
  const timeLine = prepareTimeLine(db)
  // As large as a good many notifications.
  const probe = db.prepare("INSERT OR REPLACE INTO meta VALUES ('probe', zeroblob(262144))")
  const unprobe = db.prepare("DELETE FROM meta WHERE name = 'probe'")
  const stamp = db.prepare("INSERT OR REPLACE INTO meta VALUES ('ping', ?)")

  function verifyIndexes(): void {
    for (const table of [due, recipientIndex, recipients, answers, contents]) table.verify()
  }

  if (verify) verifyIndexes()
  /** The instant at which the process before may have sent what was due by then; absent where it was not killed. */
  let suspectedAt: number | undefined
  writer.transaction(() => {
    const line = timeLine.read()
    if (hasCrashed(db)) {
      suspectedAt = line === undefined ? now : lineAt(now, line)
      due.suspect(suspectedAt)
    }
    markOpen(db)
  })

  /** True if the disk refused the last transaction: then a row of a few bytes is no proof that there is room. */
  let tookNothing = false

  /** Writes all change logs in one transaction; never throws. A disk fault fails all of them. */
  function write(changeLogs: readonly ChangeLog[]): readonly Result[] {
    try {
      const results = writer.write(changeLogs)
      tookNothing = false
      sweepFailed = false
      return results
    } catch (error) {
      const fault = faultOf(error, path)
      tookNothing = fault.code !== undefined
      const single = changeLogs.flatMap(({ changes }) => changes.map((change) => changeLogOf([change])))
      if (fault.code !== undefined || single.length === 1) return single.map(() => ({ fault }))
      // One change cannot be written at all (a value of a wrong type): the others are written one by one.
      return single.flatMap((changeLog) => write([changeLog]))
    }
  }

  /** Runs a transaction that leaves nothing of the deleted content in the file. */
  const erasing = <T>(work: () => T): T => deletingSecurely(db, () => writer.transaction(work))

  /** True if the last sweep failed: the next one waits for a write that succeeds. */
  let sweepFailed = false

  /** Drops one part that no row refers to; false where there is none. */
  function dropPart(): boolean {
    const key = parts.doomed()
    if (key === undefined) return false
    if (erasing(() => parts.drop(key))) parts.forget(key)
    return true
  }

  /** The same between writes; never throws. */
  function sweep(): boolean {
    if (sweepFailed) return false
    try {
      return dropPart()
    } catch {
      sweepFailed = true
      return false
    }
  }

  const checkpointLog = db.prepare('PRAGMA wal_checkpoint(PASSIVE)')
  let checkpointedAt = 0

  /**
   * Copies the log into the file after every so many parts. SQLite does so by itself too (`checkpointPages`), but in the
   * middle of somebody's commit.
   */
  function checkpoint(): void {
    if (parts.written() - checkpointedAt < checkpointParts) return
    checkpointedAt = parts.written()
    try {
      checkpointLog.get()
    } catch {
      // The next commit meets the fault itself.
    }
  }

  const questions = {
    ...reads,
    ...waiting,
    ...prepareCollected(db),
    scan: prepareScan(db),
    notedRows: recipientIndex.notedRows,
    /** The next places of a list in the order of `sendAt`. */
    duePlaces: (query: ListQuery): readonly DuePlace[] => {
      const [dueAt, seq] = reads.dueAfter(query)
      return dueIndex.next({ dueAt, seq }, dueMax).map((place) => [place.dueAt, place.seq])
    },
    admissions: admissions.read,
    counted: admissions.counted,
    inThrottleQueue: admissions.inThrottleQueue,
    known: prepareRecipientScan(db, recipientIndex),
    recipients: recipients.read,
    damagedAnswers: () => answers.damaged,
    answer: answers.find,
    accounts: accounts.read,
    holds: holds.read,
    job: jobs.find,
    runningJobs: jobs.running,
    openDigest: digests.find,
    digest: digests.byId,
    dueDigests: digests.due,
    nextDigestAt: digests.earliest,
    nextDueAt: due.earliest,
    releaseDue: due.releaseDue,
    backlog: prepareBacklog(db, dueIndex),
    tallies: tallies.read,
    waitingContents: contents.waiting,
    counters: writer.counters,
    suspectedAt: () => suspectedAt,
    claimDue: due.claimDue,
    timeLine: timeLine.read,
    keepTimeLine: (line: TimeLine) => {
      writer.transaction(() => timeLine.write(line))
    },
    keepFeedback: (events: readonly FeedbackEvent[]) =>
      writer.transaction(() => feedback.keepFeedback(events)),
    keepWaiting: (reports: readonly WaitingReport[], bounds: WaitingBounds) =>
      writer.transaction(() => feedback.keepWaiting(reports, bounds)),
    endWaiting: (ids: readonly string[]) => erasing(() => feedback.endWaiting(ids)),
    advanceIntake: (positions: readonly IntakePosition[]) =>
      writer.transaction(() => intake.advanceIntake(positions)),
    keepPoison: (records: readonly PoisonRecord[]) => writer.transaction(() => intake.keepPoison(records)),
    prunePoison: (before: number, max: number) => erasing(() => intake.prunePoison(before, max)),
    keepSent: (records: readonly SentRecord[]) => writer.transaction(() => feedback.keepSent(records)),
    pruneFeedback: (before: Parameters<typeof feedback.pruneFeedback>[0], max: number) =>
      erasing(() => feedback.pruneFeedback(before, max)),
    eraseBegin: (erased: Erased) => erasing(() => erasures.begin(erased)),
    eraseRows: (erased: Erased, max: number) => erasing(() => erasures.rows(erased, max)),
    eraseAnswers: (erased: Erased, after: number, max: number) =>
      erasing(() => erasures.answers(erased, after, max)),
    eraseFinish: (erased: Erased, until: number, log: readonly LogText[]) =>
      erasing(() => {
        outbox.put(log)
        erasures.finish(erased, until)
      }),
    outboxSize: outbox.size,
    outboxRemove: (positions: readonly number[]) => erasing(() => outbox.remove(positions)),
    erasuresPending: erasures.pending,
    dropParts: (keys: readonly number[]) => keys.forEach(parts.doom),
    /** Drops one part that no row refers to; false where there is none. */
    dropPart,
    /** Removes overwritten content from the log; false where a reader prevents it. */
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
    oldestAt: history.oldestAt,
    pruneJobs: (before: number, max: number) => erasing(() => jobs.prune(before, max)),
    close: (isSettled: boolean) => {
      try {
        markClosed(db, isSettled)
      } finally {
        // Where the mark cannot be written, the next opening takes this end for a crash: safe. SQLite itself
        // checkpoints the log into the file, if there is room.
        db.close()
        mark.close()
      }
    },
  }
  return { write, sweep, checkpoint, questions, claimedUntil: () => dueCursor.claimedUntil }
}
