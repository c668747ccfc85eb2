/**
 * Tells a log that was deleted from one that was folded into the file. Commits are numbered: the number stands in the
 * database, written by each transaction, and after the commit in a small file beside it. A database whose number is
 * lower than that file's misses what was acknowledged, and a start must not pass over that in silence. The file is not
 * synchronised: after a loss of power it may be behind, which claims nothing.
 */
import { closeSync, fchmodSync, openSync, readFileSync, writeSync } from 'node:fs'
import type { DatabaseSync } from 'node:sqlite'
import { SluiceError } from '../../errors.ts'

const numberName = 'commit_number'
/** Enough for each safe integer: the text is always as long, so that a shorter number leaves no rest. */
const digits = 16

const markPath = (path: string): string => `${path}-mark`

export interface CommitMark {
  /** Within a transaction: numbers it. */
  number(): void
  /** The transaction is on disk. */
  committed(): void
  close(): void
}

/** Writes nothing before the first commit. `path` is absent for a store in memory. */
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
        // The commit is on disk and must not be told as refused; a mark that is behind claims nothing.
      }
    },
    close() {
      if (file !== undefined) closeSync(file)
      file = undefined
    },
  }
}

/** One of before may have been open to others. */
function openMark(path: string): number {
  const file = openSync(markPath(path), 'w', 0o600)
  fchmodSync(file, 0o600)
  return file
}

/** @throws SluiceError STORE_UNAVAILABLE where commits are missing that were acknowledged */
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
    // A copy without it, or a store of before there were marks: nothing is known, and nothing is claimed.
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

function numberIn(db: DatabaseSync): number {
  return Number(db.prepare('SELECT value FROM meta WHERE name = ?').get(numberName)?.value ?? 0)
}
