/** What is durable, and what is known of it in memory. */
import { createSqliteStore, type DamagedRow } from '../adapters/store/sqlite.ts'
import { createPeople, type PeopleCache } from '../admission/people.ts'
import { tenantOf } from '../config/config.ts'
import { createContents } from '../delivery/contents.ts'
import { createLedger } from '../delivery/ledger.ts'
import type { Contents, Ledger } from '../doors.ts'
import type { Store } from '../ports.ts'
import type { Surroundings } from './surroundings.ts'
import { continueTimeLine } from './time-line.ts'

export interface OnRecord {
  readonly store: Store
  readonly ledger: Ledger
  readonly people: PeopleCache
  readonly contents: Contents
  /** Rows of the store that could not be read so far, each counted once. */
  readonly damagedRows: () => number
  /** Ends the line of time and closes the store. */
  close(): Promise<void>
}

export async function openRecord(
  surroundings: Surroundings,
  timeCommit: () => () => void,
): Promise<OnRecord> {
  const { config, parts, clock, onTrouble } = surroundings
  let ledger: Ledger | undefined
  let damagedRows = 0
  const { acceptLoss = false } = parts
  const store =
    parts.store ?? (await createSqliteStore({ path: config.store.path, clock, acceptLoss, onDamagedRow }))
  /** Told before the ledger is there, it is told again at the next start. */
  function onDamagedRow({ what, move }: DamagedRow): void {
    damagedRows += 1
    onTrouble(`a row of the store is damaged and left out: ${what}`, undefined)
    if (move !== undefined)
      ledger?.commit({ moves: [move] }).catch((error) => onTrouble('set a damaged row aside', error))
  }
  const stopTimeLine = await continueTimeLine(surroundings, store)
  ledger = await createLedger({
    store,
    clock,
    boundsFor: (tenant) => tenantOf(config.tenants, tenant),
    timeCommit,
  })
  return {
    store,
    ledger,
    people: createPeople({ store }),
    contents: createContents({ store }),
    damagedRows: () => damagedRows,
    async close() {
      await stopTimeLine()
      await store.close()
    },
  }
}
