/** Many notifications that wait in PostgreSQL: what a start and a question read of them, and what they do not make slower. */
import assert from 'node:assert/strict'
import { after, describe, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { needs } from '../../../../../scripts/services/needs.ts'
import { epoch, someNotification, stillClock } from '../../../src/conformance/store/sample.ts'
import { must } from '../../../src/conformance/store/suite.ts'
import { advance, type Notification } from '../../../src/model.ts'
import type { Store } from '../../../src/ports.ts'
import { ask, dropSchemas, openAt, schemaUrl } from './database.ts'

const decided = (policyVersion: string): Pick<Notification, 'decision'> => ({
  decision: { outcome: 'delay', at: epoch, policyVersion, reason: 'quiet_hours', rules: [] },
})

async function opened(t: TestContext, url: string): Promise<Store> {
  const store = await openAt(url, stillClock(epoch), '7')
  t.after(() => store.close())
  return store
}

/** The ids of all notifications that wait and were decided under another policy than `new`, with the number of pages. */
async function scanned(store: Store) {
  const found: string[] = []
  let pages = 0
  for (let cursor: string | null | undefined; cursor !== null; pages += 1) {
    const { items, nextCursor } = await store.scan({
      statuses: ['scheduled'],
      notPolicy: 'new',
      limit: 500,
      ...(cursor === undefined ? {} : { cursor }),
    })
    found.push(...items.map(({ id }) => id))
    cursor = nextCursor
  }
  return { found, pages }
}

/** The number of entries that were read of the index: a session reports them when it ends, and `least` are expected. */
async function entriesRead(url: string, index: string, least: number): Promise<number> {
  for (let left = 200; ; left -= 1) {
    const [row] = await ask(
      url,
      `SELECT idx_tup_read::int AS n FROM pg_stat_user_indexes
        WHERE schemaname = current_schema() AND indexrelname = '${index}'`,
    )
    if (row!.n >= least || left === 0) return row!.n
    await sleep(50)
  }
}

/** Takes the statistics of what is there, which is next to nothing; the server takes no others by itself, at any moment. */
async function keepStatistics(url: string): Promise<void> {
  for (const table of ['notification', 'live', 'outcome', 'recipient'])
    await ask(url, `ALTER TABLE ${table} SET (autovacuum_enabled = false)`)
  await ask(url, 'VACUUM (ANALYZE) notification, live, outcome, recipient')
}

describe('many that wait in PostgreSQL', needs('postgres'), () => {
  after(dropSchemas)

  test('finds the few of another policy among many in few pages', async (t) => {
    const url = schemaUrl('few')
    const store = await opened(t, url)
    const rows = ['new', 'old', 'old'].map((policy) =>
      someNotification({ status: 'scheduled', ...decided(policy) }),
    )
    await must(store, { accept: rows })
    // Copies of the first, between it and the others.
    const copied = (table: string): string => `INSERT INTO ${table} SELECT (r).* FROM (
      SELECT json_populate_record(t, json_build_object('id', t.id || lpad(i::text, 6, '0'), 'seq', 9 + i)) AS r
        FROM ${table} t, generate_series(1, 20500) i WHERE t.id = '${rows[0]!.id}') c`
    await ask(url, `${copied('notification')}; ${copied('live')}`)
    const { found, pages } = await scanned(store)
    assert.deepEqual(found, [rows[1]!.id, rows[2]!.id])
    assert.ok(pages <= 3, `${pages} pages`)
    const counted = await store.backlog({ secondsFrom: 0, secondsUntil: 0, minutesUntil: 0 })
    assert.equal(
      counted.reduce((sum, { count }) => sum + count, 0),
      20_503,
    )
  })

  test('reads no whole table for each row where the statistics are those of an empty one', async (t) => {
    const url = schemaUrl('empty')
    const store = await opened(t, url)
    await keepStatistics(url)
    const count = 2_000
    for (let from = 0; from < count; from += 100) {
      const accept = Array.from({ length: 100 }, (_, n) =>
        someNotification({ status: 'scheduled', dueAt: epoch + from + n, ...decided('new') }),
      )
      await must(store, { accept })
    }
    const claimed = [await store.claimDue(epoch + count, 500), await store.claimDue(epoch + count, 500)]
    assert.equal(claimed.flat().length, 1_000)
    await store.close()
    const entries = await entriesRead(url, 'notification_pkey', 1_000)
    // Each row is looked for when it is accepted, and found when it is claimed.
    assert.ok(entries <= 3 * count, `${entries} entries were read for ${count} notifications`)
  })

  test('reads no whole table for each group of moves that was planned while hardly anything waited', async (t) => {
    const url = schemaUrl('moved')
    const store = await opened(t, url)
    const some = (length: number) =>
      Array.from({ length }, () => someNotification({ status: 'scheduled', ...decided('new') }))
    const cancel = (rows: readonly Notification[]) =>
      must(store, { moves: rows.map((row) => advance(row, [{ at: epoch, status: 'cancelled' }])) })
    const first = some(2)
    await must(store, { accept: first })
    await keepStatistics(url)
    await cancel(first)
    const groups = Array.from({ length: 20 }, () => some(100))
    for (const accept of groups) await must(store, { accept })
    for (const group of groups) await cancel(group)
    await store.close()
    const entries = await entriesRead(url, 'live_pkey', 4_000)
    // Each row is found when it is locked, and when it is read: 4,000. A plan that reads whole groups reads 5,900 and more.
    assert.ok(entries <= 5_000, `${entries} entries were read for 2000 moves`)
  })
})
