/** Many notifications that wait in PostgreSQL: what a start and a question read of them, and what they do not make slower. */
import assert from 'node:assert/strict'
import { after, describe, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { needs } from '../../../../../scripts/services/needs.ts'
import { epoch, someNotification, stillClock } from '../../../src/conformance/store/sample.ts'
import { agree, must } from '../../../src/conformance/store/suite.ts'
import type { Notification } from '../../../src/model.ts'
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

/** The number of entries that were read of the index, as soon as the sessions of the store have reported them. */
async function entriesRead(url: string, index: string): Promise<number> {
  const sessions = "SELECT FROM pg_stat_activity WHERE application_name = 'sluice' AND query LIKE '%commit%'"
  for (let left = 100; (await ask(url, sessions)).length > 0 && left > 0; left -= 1) await sleep(100)
  const [row] = await ask(
    url,
    `SELECT idx_tup_read::int AS n FROM pg_stat_user_indexes
      WHERE schemaname = current_schema() AND indexrelname = '${index}'`,
  )
  return row!.n
}

describe('many that wait in PostgreSQL', needs('postgres'), () => {
  after(dropSchemas)

  test('counts and finds what an earlier version has written, which has no columns for it', async (t) => {
    const url = schemaUrl('earlier')
    const store = await opened(t, url)
    const rows = ['old', 'new', 'old'].map((policy) =>
      someNotification({ status: 'scheduled', ...decided(policy) }),
    )
    await must(store, { accept: rows })
    await ask(url, `UPDATE live SET waits = NULL, policy = NULL WHERE id <> '${rows[2]!.id}'`)
    await agree(store)
    const old = [rows[0]!.id, rows[2]!.id]
    assert.deepEqual((await scanned(store)).found, old)
  })

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
    await ask(url, 'VACUUM (ANALYZE) notification, live, outcome, recipient')
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
    const entries = await entriesRead(url, 'notification_pkey')
    // Each row is looked for when it is accepted, and found when it is claimed.
    assert.ok(entries <= 3 * count, `${entries} entries were read for ${count} notifications`)
  })
})
