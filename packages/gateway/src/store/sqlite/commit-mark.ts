/**
 * Tells a deleted write-ahead log from one that was checkpointed into the file. Commits are numbered: the number is
 * in the database, written by each transaction, and after the commit in a small file beside it. A database whose
 * number is lower than that file's lacks acknowledged commits, and a start must not ignore that silently. The file is
 * not synchronised: after a loss of power it may be behind, which raises no alarm.
 */
import { closeSync, fchmodSync, openSync, readFileSync, writeSync } from 'node:fs'
import type { DatabaseSync } from 'node:sqlite'
import { SluiceError } from '../../errors.ts'

const numberName = 'commit_number'
/**
 * Enough digits for each safe integer: the text always has this length, so that a shorter number leaves no remainder.
 */
const digits = 16

const markPath = (path: string): string => `${path}-mark`

export interface CommitMark {
  /** Numbers the transaction; called inside it. */
  number(): void
  /** Records the number; called when the transaction is on disk. */
  committed(): void
  close(): void
}

/** Creates the mark; it writes nothing before the first commit. `path` is absent for a store in memory. */
export function createCommitMark(db: DatabaseSync, path: string | undefined): CommitMark {
  const write = db.prepare('INSERT OR REPLACE INTO meta VALUES (?, ?)')
  let last = numberIn(db)
  let file: number | undefined
  return {
    number: () => void write.run(numberName, last + 1),
    committed() {
      last += 1
      if (path === undefined) return
      try {
        file ??= openMark(path)
        writeSync(file, String(last).padStart(digits, '0'), 0)
      } catch {
        // The commit is on disk and must not be reported as refused; a mark that is behind raises no alarm.
      }
    },
    close() {
      if (file !== undefined) closeSync(file)
      file = undefined
    },
  }
}

/** Opens the mark with private permissions: an older file may have been readable by others. */
function openMark(path: string): number {
  const file = openSync(markPath(path), 'w', 0o600)
  fchmodSync(file, 0o600)
  return file
}

/** @throws SluiceError STORE_UNAVAILABLE where acknowledged commits are missing */
export function checkCommits(db: DatabaseSync, path: string): void {
  const mark = readMark(path)
  if (mark === undefined || numberIn(db) >= mark) return
  throw new SluiceError(
    'STORE_UNAVAILABLE',
    `The store file ${path} misses what was acknowledged last: the log beside it (${path}-wal) is gone or shorter than it was, or the file is an older copy. Put both back as they were; to go on without what is missing, start once with "sluice serve --accept-loss".`,
  )
}

function readMark(path: string): number | undefined {
  try {
    const mark = Number(readFileSync(markPath(path), 'utf8'))
    return Number.isSafeInteger(mark) ? mark : undefined
  } catch (error) {
    // A copy without the mark, or a store from before marks existed: nothing is known and nothing is checked.
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

function numberIn(db: DatabaseSync): number {
  return Number(db.prepare('SELECT value FROM meta WHERE name = ?').get(numberName)?.value ?? 0)
}
