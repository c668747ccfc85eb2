/**
 * Tells a log that was deleted from one that was folded into the file. Each run of a store has a number, which stands in
 * a small file beside it from the first commit on; the store itself has the number of the last run after which
 * everything was in it. Where the two differ there has to be a log: without one, or with an older copy of the file,
 * what was acknowledged is gone, and a start must not pass over that in silence.
 */
import { closeSync, fsyncSync, openSync, readFileSync, renameSync, statSync, writeSync } from 'node:fs'
import { dirname } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { SluiceError } from '../../../errors.ts'

const runName = 'run_number'
const settledName = 'settled_run'
/** Of a log without a commit. */
const logHeaderBytes = 32

const markPath = (path: string): string => `${path}-run`

/** @throws SluiceError STORE_UNAVAILABLE where commits are missing that were acknowledged */
export function checkLog(path: string): void {
  const mark = readMark(path)
  if (mark === undefined || sizeOf(path) === 0 || sizeOf(`${path}-wal`) > logHeaderBytes) return
  const db = new DatabaseSync(path, { readOnly: true })
  try {
    if (numberIn(db, settledName) === mark) return
  } finally {
    db.close()
  }
  throw new SluiceError(
    'STORE_UNAVAILABLE',
    `The store file ${path} misses what was acknowledged last: the log beside it (${path}-wal) is gone or empty, or the file is an older copy. Put both back as they were; to go on without what is missing, start once with "sluice serve --accept-loss".`,
  )
}

/** Inside the transaction that opens the store: the number of this run. */
export function beginRun(db: DatabaseSync): number {
  const run = numberIn(db, runName) + 1
  db.prepare('INSERT OR REPLACE INTO meta VALUES (?, ?)').run(runName, run)
  return run
}

/** When that transaction is on disk; from here on the log is missed. */
export function writeMark(path: string, run: number): void {
  const temporary = `${markPath(path)}-new`
  const file = openSync(temporary, 'w', 0o600)
  try {
    writeSync(file, `${run}\n`)
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
  renameSync(temporary, markPath(path))
  const folder = openSync(dirname(path), 'r')
  try {
    fsyncSync(folder)
  } finally {
    closeSync(folder)
  }
}

/** Whether everything up to this run is to be in the file when the log is folded into it; taken back by `false`. */
export function markSettled(db: DatabaseSync, run: number, isSettled: boolean): void {
  db.prepare('INSERT OR REPLACE INTO meta VALUES (?, ?)').run(settledName, isSettled ? run : run - 1)
}

function readMark(path: string): number | undefined {
  try {
    return Number(readFileSync(markPath(path), 'utf8'))
  } catch (error) {
    // A copy without it, or a store of before there were marks: nothing is known, and nothing is claimed.
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}

const sizeOf = (path: string): number => statSync(path, { throwIfNoEntry: false })?.size ?? 0

function numberIn(db: DatabaseSync, name: string): number {
  return Number(db.prepare('SELECT value FROM meta WHERE name = ?').get(name)?.value ?? 0)
}
