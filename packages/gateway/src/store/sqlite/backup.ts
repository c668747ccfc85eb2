/**
 * Copies a store file in one snapshot, beside the gateway that writes it, and puts such a copy back. The secret keys that
 * lie beside a store go into a second file: a copy of the data alone must not tell whether an erased recipient is in it.
 *
 * `VACUUM INTO` reads within one transaction and holds no writer up. The online backup of SQLite begins anew with every
 * commit of another process, and would not end under load.
 */
import {
  closeSync,
  existsSync,
  fsyncSync,
  linkSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { makeFolder, makePrivateFile } from '../../adapters/folder.ts'
import { SluiceError } from '../../errors.ts'
import type { HoldRecord } from '../../ports.ts'
import { RowDamage } from './codec/checksum.ts'
import { checkCommits } from './commit-mark.ts'
import { checkHealth, connectReader, markOpen, schemaVersions } from './database.ts'
import { entriesOf, keyFiles } from './record-source.ts'
import { diskFault, isDamage } from './sqlite-errors.ts'
import { prepareHolds } from './tables/holds.ts'

export interface BackupOptions {
  /** The path of the store. */
  readonly path: string
  /** The file to write. */
  readonly to: string
  /** The file of the secret keys to write. */
  readonly keysTo: string
  /** The instant of the backup, epoch ms. */
  readonly now: number
  /** Keeps the copy without reading its rows: one that is damaged would end the backup. */
  readonly isUnchecked: boolean
  /** Hears the share of the work that is done, from 0 to 1. */
  readonly onProgress: (share: number) => void
}

export interface BackupReport {
  readonly bytes: number
  /** The number of entries by kind; absent where they were not read. */
  readonly counts?: Readonly<Record<string, number>>
  /** The names of the secret keys. */
  readonly keys: readonly string[]
}

export interface RestoreOptions {
  /** The file of the backup. */
  readonly from: string
  /** The file of its secret keys; undefined to go on without them. */
  readonly keysFrom: string | undefined
  /** The path of the store. */
  readonly path: string
  /** A hold that is in force when the gateway starts. */
  readonly hold: HoldRecord | undefined
}

export interface RestoreReport {
  /** The instant of the backup, epoch ms; undefined for a copy that `sluice backup` did not write. */
  readonly takenAt: number | undefined
  readonly notifications: number
  readonly keys: readonly string[]
}

type Key = readonly [name: string, value: string]

/** The row of `meta` that has the instant of a backup. */
const takenName = 'backup taken at'
/** Endings of the files that a store leaves; the log of another file would be read as its own. */
const endings = ['', '-wal', '-shm', '-journal', '-mark'] as const
const cacheMib = 32

const refuse = (message: string): SluiceError => new SluiceError('INVALID_CONFIG', message)

/**
 * Copies a store and its keys, and reads the whole copy: its pages, and every row with its check sum.
 * @throws SluiceError INVALID_CONFIG where there is no store, or a file exists or cannot be written; STORE_UNAVAILABLE
 * where the store is damaged or the disk is full. Neither file is there then.
 */
export function backUp({ path, to, keysTo, now, isUnchecked, onProgress }: BackupOptions): BackupReport {
  if (!existsSync(path)) throw refuse(`The store file ${path} does not exist: there is nothing to copy.`)
  const existing = [to, keysTo].find((file) => existsSync(file))
  if (existing !== undefined)
    throw refuse(`${existing} exists. A backup replaces nothing: name another file.`)
  const made: string[] = []
  try {
    return written(to, (part) => {
      copyInto(path, part, (db) => {
        const { seen, known } = schemaVersions(db)
        if (seen !== known)
          throw refuse(
            `The store file ${path} is of another version (schema ${seen}; this one has ${known}): copy it with that version.`,
          )
        checkCommits(db, path)
      })
      const counts = withFile(part, (db) => {
        db.prepare('INSERT OR REPLACE INTO meta VALUES (?, ?)').run(takenName, now)
        checkHealth(db, path)
        return isUnchecked ? undefined : readAll(db, path, onProgress)
      })
      // Behind the copy: the key of erasures is made before the first erasure is written.
      const keys = keyFiles.flatMap((name): Key[] => {
        const value = keyIn(keyFile(path, name))
        return value === undefined ? [] : [[name, value]]
      })
      makeFolder(dirname(keysTo))
      writeSecret(keysTo, `${JSON.stringify(Object.fromEntries(keys), null, 2)}\n`, made)
      const bytes = statSync(part).size
      return { bytes, keys: keys.map(([name]) => name), ...(counts === undefined ? {} : { counts }) }
    })
  } catch (error) {
    for (const file of made) rmSync(file, { force: true })
    throw error
  }
}

/**
 * Puts a copy where no store is. The gateway that starts on it takes its last run for one that was killed: what was under
 * way may have been sent.
 * @throws SluiceError INVALID_CONFIG where a store is there already, or the copy or its keys cannot be used;
 * STORE_UNAVAILABLE where the copy is damaged or the disk is full. No store is there then.
 */
export function restore({ from, keysFrom, path, hold }: RestoreOptions): RestoreReport {
  if (!existsSync(from)) throw refuse(`The backup ${from} does not exist.`)
  const keys = keysFrom === undefined ? [] : keysOf(keysFrom)
  const existing = [
    ...endings.map((ending) => `${path}${ending}`),
    ...keyFiles.map((name) => keyFile(path, name)),
  ].find((file) => existsSync(file))
  if (existing !== undefined)
    throw refuse(
      `${existing} exists: a backup is restored into an empty folder. Stop the gateway, move ${dirname(path)} away, and restore again.`,
    )
  const made: string[] = []
  try {
    return written(path, (part) => {
      copyInto(from, part, (db) => {
        const { seen, known } = schemaVersions(db)
        if (seen === 0) throw refuse(`${from} is no backup of a store.`)
        if (seen > known)
          throw refuse(
            `The backup ${from} is of a newer version (schema ${seen}; this one knows ${known}): restore it with that version.`,
          )
      })
      const found = withFile(part, (db) => {
        checkHealth(db, from)
        const takenAt = db.prepare('SELECT value FROM meta WHERE name = ?').get(takenName)?.value
        markOpen(db)
        if (hold !== undefined) prepareHolds(db).write(hold.name, JSON.stringify(hold))
        return {
          takenAt: takenAt === undefined ? undefined : Number(takenAt),
          notifications: countOf(db, 'notifications'),
        }
      })
      for (const [name, value] of keys) writeSecret(keyFile(path, name), value, made)
      return { ...found, keys: keys.map(([name]) => name) }
    })
  } catch (error) {
    for (const file of made) rmSync(file, { force: true })
    throw error
  }
}

/** Writes a file under another name, and gives it its own when it is whole and on the disk. It replaces no file. */
function written<T>(path: string, write: (part: string) => T): T {
  const part = `${path}.part`
  try {
    makeFolder(dirname(path))
    rmSync(part, { force: true })
    makePrivateFile(part)
    const result = write(part)
    synchronise(part)
    linkSync(part, path)
    synchronise(dirname(path))
    return result
  } catch (error) {
    const fault = diskFault(error, path) ?? error
    if (fault instanceof SluiceError || !(error instanceof Error) || !('syscall' in error)) throw fault
    throw new SluiceError('INVALID_CONFIG', `${path} cannot be written: ${error.message}.`, { cause: error })
  } finally {
    rmSync(part, { force: true })
  }
}

/** Copies the file of a store together with its log. */
function copyInto(from: string, to: string, check: (db: DatabaseSync) => void): void {
  let db: DatabaseSync | undefined
  try {
    db = connectReader(from, cacheMib)
    check(db)
    db.prepare('VACUUM INTO ?').run(to)
  } catch (error) {
    if (!isDamage(error)) throw error
    throw new SluiceError(
      'STORE_UNAVAILABLE',
      `${from} cannot be copied, it is damaged or no store: ${(error as Error).message}.`,
      { cause: error },
    )
  } finally {
    db?.close()
  }
}

function withFile<T>(path: string, work: (db: DatabaseSync) => T): T {
  const db = new DatabaseSync(path)
  try {
    db.exec('PRAGMA synchronous = FULL; PRAGMA temp_store = MEMORY;')
    return work(db)
  } finally {
    db.close()
  }
}

/** Reads every row. @throws SluiceError STORE_UNAVAILABLE where one is damaged or is missing */
function readAll(
  db: DatabaseSync,
  path: string,
  onProgress: (share: number) => void,
): Record<string, number> {
  const counts: Record<string, number> = {}
  const [notifications, states] = [countOf(db, 'notifications'), countOf(db, 'states')]
  try {
    for (const { kind, entries } of entriesOf(db)) {
      if (entries.length > 0) counts[kind] = (counts[kind] ?? 0) + entries.length
      onProgress((counts.notification ?? 0) / Math.max(1, notifications))
    }
  } catch (error) {
    if (!(error instanceof RowDamage)) throw error
    throw damagedRow(path, error.message, error)
  }
  const read = counts.notification ?? 0
  if (read !== notifications || read !== states)
    throw damagedRow(path, `${notifications} notifications have ${states} states`)
  return counts
}

const damagedRow = (path: string, what: string, cause?: unknown): SluiceError =>
  new SluiceError(
    'STORE_UNAVAILABLE',
    `The backup was not kept: a row of ${path} is damaged (${what}). With --unchecked it is kept as it is.`,
    { cause },
  )

const countOf = (db: DatabaseSync, table: 'notifications' | 'states'): number =>
  Number(db.prepare(`SELECT count(*) AS n FROM ${table}`).get()!.n)

const keyFile = (path: string, name: string): string => join(dirname(path), `${name}.key`)

const keyIn = (file: string): string | undefined =>
  existsSync(file) ? readFileSync(file, 'utf8').trim() : undefined

/** @throws SluiceError INVALID_CONFIG where the file holds no keys */
function keysOf(file: string): readonly Key[] {
  const text = keyIn(file)
  if (text === undefined)
    throw refuse(
      `The keys of the backup, ${file}, do not exist: name their file with --keys. With --without-keys new ones are made: unsubscribe links that were sent end, and erased recipients who come back are not known, nor are their opt-outs.`,
    )
  let keys: unknown
  try {
    keys = JSON.parse(text)
  } catch {
    keys = undefined
  }
  const entries = typeof keys === 'object' && keys !== null ? Object.entries(keys) : undefined
  const isSound = entries?.every(
    ([name, value]) => (keyFiles as readonly string[]).includes(name) && typeof value === 'string',
  )
  if (entries === undefined || isSound !== true)
    throw refuse(`${file} is no file of keys that a backup wrote.`)
  return entries
}

/** Writes a file, and adds it to those that were made. One that is there by now belongs to another process, and stays. */
function writeSecret(path: string, text: string, made: string[]): void {
  const file = openSync(path, 'wx', 0o600)
  made.push(path)
  try {
    writeFileSync(file, text, { flush: true })
  } finally {
    closeSync(file)
  }
}

function synchronise(path: string): void {
  const file = openSync(path, 'r')
  try {
    fsyncSync(file)
  } finally {
    closeSync(file)
  }
}
