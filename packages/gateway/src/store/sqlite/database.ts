/**
 * Opens the file: a lock for one owner, the pragmas, the migrations, a health check, and the mark by which the next
 * opening sees whether this run ended cleanly. Everything here runs once, before the first notification.
 */
import { createHash } from 'node:crypto'
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { makeFolder, makePrivate, makePrivateFile } from '../../adapters/folder.ts'
import { SluiceError } from '../../errors.ts'
import { checkCommits } from './commit-mark.ts'
import type { HashKey } from './indexes/hash.ts'
import { damaged, diskFault, isBusy, isDamage } from './sqlite-errors.ts'
import { makeCursorKey } from './tables/cursor.ts'
import { erasedName } from './tables/erasures.ts'
import { nextPartsKey } from './tables/parts.ts'
import { isBrokenInside } from './wal-check.ts'

export interface DatabaseOptions {
  /** The path of a file, or ':memory:'. */
  readonly path: string
  /** The maximum memory for pages, MiB. @defaultValue 32 */
  readonly cacheMib?: number
  /** The file size up to which every opening reads and checks the whole file: 1.4 ms a MiB. @defaultValue 256 */
  readonly checkMib?: number
  /** The maximum file size, MiB; at this size nothing is accepted until `prune` made room. @defaultValue no bound */
  readonly sizeMaxMib?: number
  /** Opens the store although acknowledged commits are missing (commit-mark.ts). @defaultValue false */
  readonly acceptLoss?: boolean
}

export interface Database {
  readonly db: DatabaseSync
  /** True if the file is small enough for a full check. */
  readonly small: boolean
  readonly hashKey: HashKey
  /** True if any recipient was ever erased. */
  readonly hasErased: boolean
  /** True if the run before this one ended without a close, or closed the store unsettled. */
  readonly unsettled: boolean
  /** The first key that no part of a large value on record has. */
  readonly partsKey: number
  /** Releases the lock on the file; to be called when `db` is closed. */
  readonly unlock: () => void
}

const pageBytes = 8_192
/**
 * Pages of log, 2 MiB, behind which SQLite copies them into the file in the middle of a commit. Each copy is a stall:
 * with 2,000 pages p99 from POST to settled at 1,800 messages/s was 85 to 197 ms (three rounds), with 250 it was 51 to
 * 86, and 52 to 68 without any copy; the throughput of 40,000 messages in batches did not tell the three apart.
 */
const checkpointPages = 250
export const inMemory = ':memory:'
const folder = new URL('./migrations/', import.meta.url)

export function openDatabase(options: DatabaseOptions): Database {
  const { path } = options
  const unlock = path === inMemory ? () => {} : lock(path)
  try {
    return open(options, unlock)
  } catch (error) {
    unlock()
    throw diskFault(error, path) ?? error
  }
}

function open(options: DatabaseOptions, unlock: () => void): Database {
  const { path, checkMib = 256 } = options
  if (path !== inMemory && isBrokenInside(`${path}-wal`)) {
    throw damaged(path, 'commits in its log, the file beside it, cannot be read')
  }
  const db = connect(options)
  try {
    const small = path !== inMemory && statSync(path).size <= checkMib * 2 ** 20
    if (small) checkHealth(db, path)
    if (!migrate(db, path)) checkSchema(db, path)
    if (path !== inMemory && options.acceptLoss !== true) checkCommits(db, path)
    makeKeys(db)
    return {
      db,
      small,
      hashKey: hashKeyOf(db),
      hasErased: hasErased(db),
      unsettled: lastRun(db) !== undefined && lastRun(db) !== 'closed',
      partsKey: nextPartsKey(db),
      unlock,
    }
  } catch (error) {
    db.close()
    throw error
  }
}

export interface UnusedDatabase {
  readonly db: DatabaseSync
  /** True if the last run closed the store unsettled. */
  readonly unsettled: boolean
  readonly close: () => void
}

/**
 * Opens a file that no gateway uses, by a connection that cannot write: nothing in it changes, and no gateway can open
 * it meanwhile.
 * @throws SluiceError INVALID_CONFIG where it is in use, was not closed cleanly, or is of another version;
 * STORE_UNAVAILABLE where it is damaged
 */
export function openUnused(path: string): UnusedDatabase {
  const refuse = (message: string): SluiceError =>
    new SluiceError('INVALID_CONFIG', `The store file ${path} ${message}`)
  if (!existsSync(path)) throw refuse('does not exist.')
  const unlock = lock(path, 'Stop it first (SIGTERM), or wait until the move that reads the file has ended.')
  let db: DatabaseSync | undefined
  const close = (): void => {
    db?.close()
    unlock()
  }
  try {
    db = connectReader(path, 32)
    checkHealth(db, path)
    const { seen, known } = schemaVersions(db)
    if (seen !== known) {
      const wayOut =
        seen > known ? 'Use that version' : 'Start a gateway of this version on it once, and stop it'
      throw refuse(`is of another version (schema ${seen}; this one has ${known}). ${wayOut}.`)
    }
    checkCommits(db, path)
    if (hasCrashed(db))
      throw refuse(
        'was not closed: its gateway was killed, and what it sent last is not known. Start the gateway on it once, and stop it (SIGTERM).',
      )
    return { db, unsettled: lastRun(db) === 'unsettled', close }
  } catch (error) {
    close()
    throw diskFault(error, path) ?? error
  }
}

/** Opens a connection to a file that `openDatabase` has locked and checked. */
export function connect({ path, cacheMib = 32, sizeMaxMib }: DatabaseOptions): DatabaseSync {
  const db = new DatabaseSync(path)
  try {
    tune(db, path, cacheMib)
    if (sizeMaxMib !== undefined) {
      db.exec(`PRAGMA max_page_count = ${Math.ceil((sizeMaxMib * 2 ** 20) / pageBytes)}`)
    }
    return db
  } catch (error) {
    db.close()
    throw error
  }
}

/**
 * Refuses the path of a folder before anything is done with it: its rights would become those of a private file.
 * @throws SluiceError INVALID_CONFIG
 */
export function refuseFolder(path: string): void {
  if (statSync(path, { throwIfNoEntry: false })?.isDirectory() !== true) return
  throw new SluiceError(
    'INVALID_CONFIG',
    `The store ${path} is a folder. Name a file in it: sqlite:${join(path, 'sluice.db')}.`,
    { errors: [{ path: 'store', message: `${path} is a folder` }] },
  )
}

/** Opens a read-only connection, beside the one that writes. */
export function connectReader(path: string, cacheMib: number): DatabaseSync {
  refuseFolder(path)
  const db = new DatabaseSync(path, { readOnly: true })
  db.exec(`PRAGMA cache_size = ${-cacheMib * 1024}; PRAGMA temp_store = MEMORY; PRAGMA busy_timeout = 100;`)
  return db
}

/** The migrations that a file has seen, and those that this version knows. */
export const schemaVersions = (db: DatabaseSync): { readonly seen: number; readonly known: number } => ({
  seen: Number(db.prepare('PRAGMA user_version').get()?.user_version),
  known: migrationFiles().length,
})

/** The file's own secret: see hash.ts. */
export function hashKeyOf(db: DatabaseSync): HashKey {
  const select = db.prepare('SELECT value FROM meta WHERE name = ?')
  return { k0: Number(select.get('k0')?.value), k1: Number(select.get('k1')?.value) }
}

/** Names the file without telling its secret. */
export const nameOf = ({ k0, k1 }: HashKey): string =>
  createHash('sha256').update(`${k0} ${k1}`).digest('hex').slice(0, 16)

/** Creates the secrets of the file, where it has none yet. */
function makeKeys(db: DatabaseSync): void {
  const [k0, k1] = crypto.getRandomValues(new Int32Array(2))
  db.prepare("INSERT OR IGNORE INTO meta VALUES ('k0', ?), ('k1', ?)").run(k0!, k1!)
  makeCursorKey(db)
}

function hasErased(db: DatabaseSync): boolean {
  return db.prepare('SELECT 1 FROM meta WHERE name = ?').get(erasedName) !== undefined
}

/** True if the run before this one did not end by `markClosed`. */
export function hasCrashed(db: DatabaseSync): boolean {
  return lastRun(db) === 'open'
}

/** How the run before this one ended: `open` where it was killed; undefined where there was none. */
function lastRun(db: DatabaseSync): unknown {
  return db.prepare("SELECT value FROM meta WHERE name = 'run'").get()?.value
}

/** Marks the store as open: from here until `markClosed`, an end of the process is a crash. */
export function markOpen(db: DatabaseSync): void {
  db.exec("INSERT OR REPLACE INTO meta VALUES ('run', 'open')")
}

export function markClosed(db: DatabaseSync, isSettled: boolean): void {
  db.exec(`INSERT OR REPLACE INTO meta VALUES ('run', '${isSettled ? 'closed' : 'unsettled'}')`)
}

function tune(db: DatabaseSync, path: string, cacheMib: number): void {
  // Rows of a kilobyte: 8 KiB pages wrote 10–20 % more of them a second than 4 KiB, 16 KiB no more than 8.
  db.exec(
    `PRAGMA page_size = ${pageBytes}; PRAGMA cache_size = ${-cacheMib * 1024}; PRAGMA temp_store = MEMORY; PRAGMA foreign_keys = OFF; PRAGMA secure_delete = FAST;`,
  )
  if (path === inMemory) {
    db.exec('PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF;')
    return
  }
  db.exec(
    `PRAGMA busy_timeout = 100; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = ${checkpointPages};`,
  )
}

/**
 * Locks a small file beside the store for as long as this process lives. It is the operating system's lock, so a kill
 * releases it, and the store itself stays open to readers such as `sqlite3` and backups.
 */
function lock(path: string, wayOut = 'Give each process a file of its own.'): () => void {
  refuseFolder(path)
  const file = `${path}-lock`
  try {
    makeFolder(dirname(path))
    // SQLite gives the write-ahead log and the other files beside the store the mode of the store.
    for (const own of [path, file]) makePrivateFile(own)
    for (const beside of [`${path}-wal`, `${path}-shm`]) makePrivate(beside)
    const db = new DatabaseSync(file)
    try {
      db.exec('BEGIN EXCLUSIVE')
    } catch (error) {
      db.close()
      throw error
    }
    return () => db.close()
  } catch (error) {
    if (isBusy(error)) {
      throw new SluiceError(
        'INVALID_CONFIG',
        `The store file ${path} is in use by another gateway. ${wayOut}`,
        { errors: [{ path: 'store', message: `${path} is in use` }], cause: error },
      )
    }
    const cause = error instanceof Error ? error.message : String(error)
    throw new SluiceError('INVALID_CONFIG', `The store file ${path} cannot be opened: ${cause}.`, {
      errors: [{ path: 'store', message: `${path} cannot be opened` }],
      cause: error,
    })
  }
}

/**
 * Reads every page, and every index against its table; throws the damage. `quick_check` would take half as long and
 * miss an index that has lost a row.
 */
export function checkHealth(db: DatabaseSync, path: string): void {
  let found: string[]
  try {
    found = db
      .prepare('PRAGMA integrity_check(3)')
      .all()
      .map((row) => String(row.integrity_check))
  } catch (error) {
    if (isDamage(error)) throw damaged(path, (error as Error).message, error)
    throw error
  }
  if (found.length !== 1 || found[0] !== 'ok') throw damaged(path, found.join('; '))
}

/** Compares the schema with a freshly made one, so that every statement will find the names it uses. */
function checkSchema(db: DatabaseSync, path: string): void {
  if (schemaOf(db) !== freshSchema()) throw damaged(path, 'its schema is not the one that was written')
}

const schemaOf = (db: DatabaseSync): string =>
  JSON.stringify(
    db
      .prepare(
        "SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite_stat%' ORDER BY name",
      )
      .all(),
  )

let madeSchema: string | undefined
/** The schema that the migrations make, made once by a process. */
function freshSchema(): string {
  if (madeSchema !== undefined) return madeSchema
  const fresh = new DatabaseSync(inMemory)
  migrate(fresh, inMemory)
  madeSchema = schemaOf(fresh)
  fresh.close()
  return madeSchema
}

const migrationFiles = (): readonly string[] =>
  readdirSync(folder)
    .filter((name) => name.endsWith('.sql'))
    .sort()

/**
 * Runs the migrations that the file has not seen; `user_version` counts them. All in one transaction: a transaction for
 * each took most of the opening of a new file. Returns true if it made the whole schema.
 */
function migrate(db: DatabaseSync, path: string): boolean {
  const files = migrationFiles()
  const seen = Number(db.prepare('PRAGMA user_version').get()?.user_version)
  if (seen > files.length) {
    throw new SluiceError(
      'INVALID_CONFIG',
      `The store file ${path} was written by a newer version (schema ${seen}; this one knows ${files.length}).`,
      { errors: [{ path: 'store', message: 'written by a newer version' }] },
    )
  }
  if (seen === files.length) return false
  const sql = files.slice(seen).map((name) => readFileSync(new URL(name, folder), 'utf8'))
  db.exec(`BEGIN IMMEDIATE; ${sql.join(';\n')}; PRAGMA user_version = ${files.length}; COMMIT;`)
  return seen === 0
}
