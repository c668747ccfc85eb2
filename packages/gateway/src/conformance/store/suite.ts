/** Shared parts of the store's suite: opening a store for a test, and assertions. */
import assert from 'node:assert/strict'
import { type BacklogRow, backlogRowOf } from '../../backlog-cell.ts'
import type { Notification } from '../../model.ts'
import { statuses } from '../../model.ts'
import type { Change, CommitResult, Conflict, Page, Store } from '../../ports.ts'
import type { stillClock } from './sample.ts'

export interface StoreCapabilities {
  /** True when rows outlive `close`, and the same place can be opened again. */
  readonly durable: boolean
  /** True when `begin` compares versions with the record; a store of one process may leave that to the ledger. */
  readonly checksRights: boolean
  /** False for a store without an outbox. @defaultValue true */
  readonly keepsOutbox?: boolean
}

export interface Context {
  readonly clock: ReturnType<typeof stillClock>
  reopen(): Promise<Store>
}

/** Registers a test with a store of its own. */
export type Test = (title: string, body: (store: Store, context: Context) => Promise<void>) => void

export const applied: CommitResult = { applied: true }
export const conflict = (kind: Conflict['kind'], key: string): CommitResult => ({
  applied: false,
  conflicts: [{ kind, key }],
})
export const ids = (list: readonly { readonly id: string }[]): readonly string[] => list.map(({ id }) => id)

export async function must(store: Store, change: Change): Promise<void> {
  assert.deepEqual(await store.commit(change), applied)
}

/** Counts the records one by one and compares. */
export async function agree(store: Store): Promise<void> {
  const tallies = await store.tallies()
  for (const tenant of new Set(['acme', ...tallies.map((tally) => tally.tenant)])) {
    for (const status of statuses) {
      const { items } = await store.list({
        tenant,
        statuses: [status],
        limit: 100_000,
      })
      const counted = tallies
        .filter((tally) => tally.tenant === tenant && tally.status === status)
        .reduce((sum, { count }) => sum + count, 0)
      assert.equal(counted, items.length, `${tenant} ${status}`)
    }
  }
  await agreeOnBacklog(store)
}

/** Compares the backlog that a start counts with every row that waits, one by one. */
async function agreeOnBacklog(store: Store): Promise<void> {
  const waiting: Notification[] = []
  for (let cursor: string | undefined, more = true; more; ) {
    const page: Page<Notification> = await store.scan({
      statuses: ['scheduled', 'digesting', 'queued', 'sending', 'dead'],
      limit: 1_000,
      ...(cursor === undefined ? {} : { cursor }),
    })
    waiting.push(...page.items)
    more = page.nextCursor !== null
    cursor = page.nextCursor ?? undefined
  }
  const counts = (rows: readonly (Omit<BacklogRow, 'count'> & { readonly count: number })[]) => {
    const counted: Record<string, number> = {}
    for (const { count, example: _, detail: _said, ...cell } of rows) {
      const key = JSON.stringify(Object.entries(cell).sort())
      counted[key] = (counted[key] ?? 0) + count
    }
    return counted
  }
  const listed = waiting.map((each) => ({ ...backlogRowOf(each)!, count: 1 }))
  assert.deepEqual(counts(await store.backlog()), counts(listed))
  // Everything is due earlier, later by the minute, or later by the hour.
  for (const [secondsFrom, secondsUntil, minutesUntil] of [
    [0, 0, 0],
    [0, 0, Number.MAX_SAFE_INTEGER],
    [Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER],
  ] as const) {
    const rows = await store.backlog({ secondsFrom, secondsUntil, minutesUntil })
    assert.deepEqual(endsOf(rows), endsOf(listed))
  }
}

/** The count of each cell, and its earliest and latest second, which a coarser count does not change. */
function endsOf(rows: readonly (Omit<BacklogRow, 'count'> & { readonly count: number })[]) {
  const ends = new Map<string, { count: number; first: number; last: number }>()
  for (const { count, second, example: _, detail: _detail, ...cell } of rows) {
    const key = JSON.stringify(Object.entries(cell).sort())
    const known = ends.get(key) ?? { count: 0, first: second, last: second }
    ends.set(key, {
      count: known.count + count,
      first: Math.min(known.first, second),
      last: Math.max(known.last, second),
    })
  }
  return Object.fromEntries(ends)
}
