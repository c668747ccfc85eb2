/** The counts of a store agree with its rows. */
import assert from 'node:assert/strict'
import { type Status, statuses } from '../../src/model.ts'
import type { SqliteStore } from '../../src/store/sqlite/sqlite.ts'

export async function agree(store: SqliteStore): Promise<void> {
  const tallies = await store.tallies()
  for (const status of statuses) {
    const listed = await countListed(store, { statuses: [status] })
    const counted = tallies
      .filter((tally) => tally.status === status)
      .reduce((sum, { count }) => sum + count, 0)
    assert.equal(counted, listed, status)
  }
}

/** Counts the notifications of a tenant that its list shows. A page may end early, for its cost is bounded. */
export async function countListed(
  store: SqliteStore,
  query: { readonly recipient?: string; readonly statuses?: readonly Status[] },
): Promise<number> {
  let listed = 0
  for (let cursor: string | null | undefined; cursor !== null; ) {
    const from = cursor === undefined ? {} : { cursor }
    const page = await store.list({ tenant: 'acme', limit: 1_000_000, ...query, ...from })
    listed += page.items.length
    cursor = page.nextCursor
  }
  return listed
}
