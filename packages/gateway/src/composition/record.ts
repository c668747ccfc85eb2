/** What is durable, and what is known of it in memory. */
import { createSqliteStore } from '../adapters/store/sqlite.ts'
import { createPeople, type PeopleCache } from '../admission/people.ts'
import { tenantOf } from '../config/config.ts'
import { createContents } from '../delivery/contents.ts'
import { createLedger } from '../delivery/ledger.ts'
import type { Contents, Ledger } from '../doors.ts'
import type { Store } from '../ports.ts'
import type { Surroundings } from './surroundings.ts'

export interface OnRecord {
  readonly store: Store
  readonly ledger: Ledger
  readonly people: PeopleCache
  readonly contents: Contents
}

export async function openRecord(
  { config, parts, clock }: Surroundings,
  timeCommit: () => () => void,
): Promise<OnRecord> {
  const store = parts.store ?? (await createSqliteStore({ path: config.store.path, clock }))
  const ledger = await createLedger({
    store,
    clock,
    boundsFor: (tenant) => tenantOf(config.tenants, tenant),
    timeCommit,
  })
  return { store, ledger, people: createPeople({ store }), contents: createContents({ store }) }
}
