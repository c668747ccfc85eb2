/** The entry of the embedded store; sqlite/store.ts explains its parts. */

export { refuseFolder } from './database.ts'
export type { SqliteStore } from './store.ts'
export { createSqliteStore } from './store.ts'
export type { DamagedRow } from './tables/damaged-rows.ts'
