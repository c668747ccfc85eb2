/** The entry of the embedded store; sqlite/store.ts explains its parts. */

export type { SqliteStore } from './store.ts'
export { createSqliteStore } from './store.ts'
export type { DamagedRow } from './tables/damaged-rows.ts'
