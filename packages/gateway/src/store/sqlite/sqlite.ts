/** The door of the embedded store; what stands behind it is told in sqlite/store.ts. */

export type { SqliteStore, SqliteStoreOptions } from './store.ts'
export { createSqliteStore } from './store.ts'
export type { DamagedRow } from './tables/damaged-rows.ts'
