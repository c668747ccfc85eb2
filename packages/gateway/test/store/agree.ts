/** The counts of a store agree with its rows. */
import assert from 'node:assert/strict'
import { statuses } from '../../src/model.ts'
import type { SqliteStore } from '../../src/store/sqlite/sqlite.ts'

export async function agree(store: SqliteStore): Promise<void> {
  const tallies = await store.tallies()
  for (const status of statuses) {
    const { items } = await store.list({
      tenant: 'acme',
      statuses: [status],
      limit: 1_000_000,
    })
    const counted = tallies
      .filter((tally) => tally.status === status)
      .reduce((sum, { count }) => sum + count, 0)
    assert.equal(counted, items.length, status)
  }
}
