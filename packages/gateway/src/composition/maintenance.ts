/** Maintenance of the store beside a gateway, for the command line: completes the schema of a server. */
import type { StoreConfig } from '../config/config.ts'
import type { SchemaWork, SchemaWorkOptions } from '../store/postgres/schema-work.ts'

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
