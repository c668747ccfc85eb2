/** Maintenance of stores for the command line: completes the schema of a server, moves everything to another store. */
import type { StoreConfig } from '../config/config.ts'
import { SluiceError } from '../errors.ts'
import { moveRecord, readRecord, type Summaries } from '../store/move.ts'
import type { SchemaWork, SchemaWorkOptions } from '../store/postgres/schema-work.ts'
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
