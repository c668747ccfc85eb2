/** The door of the embedded store; what stands behind it is told in sqlite/store.ts. */
export type { DamagedRow } from './sqlite/damaged-rows.ts'
export type { SqliteStore, SqliteStoreOptions } from './sqlite/store.ts'
export { createSqliteStore } from './sqlite/store.ts'
