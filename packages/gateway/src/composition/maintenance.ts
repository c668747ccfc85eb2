/** Maintenance of stores for the command line: completes the schema of a server, copies a file, moves everything. */
import type { StoreConfig } from '../config/config.ts'
import { SluiceError } from '../errors.ts'
import { moveRecord, readRecord, type Summaries } from '../store/move.ts'
import type { SchemaWork, SchemaWorkOptions } from '../store/postgres/schema-work.ts'
import type { BackupOptions, BackupReport, RestoreOptions, RestoreReport } from '../store/sqlite/backup.ts'
import { inMemory } from '../store/sqlite/database.ts'
import { version } from '../version.ts'

export type { Summaries } from '../store/move.ts'
export type { SchemaWork } from '../store/postgres/schema-work.ts'

/**
 * Completes the schema of the store's server, and grants rights; undefined for a file, which each opening completes.
 * @throws SluiceError INVALID_CONFIG where the server does not serve, or the user may not
 */
export async function migrateStore(
  { postgres }: StoreConfig,
  options: SchemaWorkOptions,
): Promise<SchemaWork | undefined> {
  if (postgres === undefined) return undefined
  const { workOnSchema } = await import('../store/postgres/schema-work.ts')
  return workOnSchema(postgres, options)
}

export interface MoveOptions {
  readonly from: StoreConfig
  readonly to: StoreConfig
  /** Reads the source and looks at the destination, and writes nothing. */
  readonly isDryRun: boolean
  /** Hears the share of the work that is done, from 0 to 1. */
  readonly onProgress: (share: number) => void
}

/**
 * Moves everything from one store to another, which must be empty; both must be unused.
 * @throws SluiceError INVALID_CONFIG where one of them does not serve; STORE_UNAVAILABLE where the move was not kept
 */
export async function moveStore({ from, to, isDryRun, onProgress }: MoveOptions): Promise<Summaries> {
  if (from.postgres !== undefined || to.postgres === undefined)
    throw new SluiceError(
      'INVALID_CONFIG',
      'This version moves from a file to PostgreSQL: sluice move sqlite:<path> postgres://user@host/database',
    )
  const [{ openPostgresTarget }, { openSqliteSource }] = await Promise.all([
    import('../store/postgres/record-target.ts'),
    import('../store/sqlite/record-source.ts'),
  ])
  const source = openSqliteSource(from.path)
  try {
    const target = await openPostgresTarget({ address: to.postgres, version, isDryRun })
    try {
      return isDryRun ? await readRecord(source, onProgress) : await moveRecord(source, target, onProgress)
    } finally {
      await target.close()
    }
  } finally {
    await source.close()
  }
}

/**
 * Copies the file of a store and its secret keys, beside the gateway that writes it.
 * @throws SluiceError INVALID_CONFIG where the store is no file, or a file cannot be written; STORE_UNAVAILABLE where it
 * is damaged or the disk is full
 */
export async function backUpStore(
  store: StoreConfig,
  options: Omit<BackupOptions, 'path'>,
): Promise<BackupReport> {
  const path = fileOf(store, 'Copy it with the tools of PostgreSQL: pg_dump --format=custom --schema')
  const { backUp } = await import('../store/sqlite/backup.ts')
  return backUp({ ...options, path })
}

/**
 * Puts a backup where the store will be, which must not exist.
 * @throws SluiceError INVALID_CONFIG where the store is no file, exists already, or the backup cannot be used;
 * STORE_UNAVAILABLE where it is damaged or the disk is full
 */
export async function restoreStore(
  store: StoreConfig,
  options: Omit<RestoreOptions, 'path'>,
): Promise<RestoreReport> {
  const path = fileOf(
    store,
    'Restore it with the tools of PostgreSQL, with another ?prefix= in "state", and with a row in the table "hold" where it shall not send at once (docs/operate/production.md): pg_restore --schema',
  )
  const { restore } = await import('../store/sqlite/backup.ts')
  return restore({ ...options, path })
}

/** @param tool the command for a server, up to the name of the schema */
function fileOf({ path, postgres }: StoreConfig, tool: string): string {
  if (postgres !== undefined)
    throw new SluiceError(
      'INVALID_CONFIG',
      `The store is a server. ${tool}=${postgres.schema}; its secret keys are in it.`,
    )
  if (path === inMemory)
    throw new SluiceError('INVALID_CONFIG', 'The store is in the memory of its gateway: it has no file.')
  return path
}
