/** Lists over a large record on PostgreSQL: a page examines a bounded number of rows and may end early. */
import assert from 'node:assert/strict'
import { after, describe, type TestContext, test } from 'node:test'
import { needs } from '../../../../../scripts/services/needs.ts'
import { epoch, stillClock } from '../../../src/conformance/store/sample.ts'
import type { Notification } from '../../../src/model.ts'
import type { Page } from '../../../src/ports.ts'
import { readRowsFor } from '../../../src/store/postgres/codec.ts'
import { createLists } from '../../../src/store/postgres/lists.ts'
import { ask, dropSchemas, openAt, schemaUrl } from './database.ts'
import { explained } from './explained.ts'

/** The rows of many notifications: the last one is read, and of the others no list needs more than `live`. */
const fill = (columns: string, values: string): string => `
  INSERT INTO live (id, seq, tenant, recipient, channel, priority, bytes, rev, due_at, attempts, ${columns})
    SELECT 'n' || lpad(n::text, 6, '0'), n, CASE WHEN n = 25000 THEN 'acme' ELSE 'other' END, 'r', 'email', 'normal', 0, 1, 1, 0, ${values}
      FROM generate_series(1, 25000) n;
  INSERT INTO notification VALUES ('n025000', 25000, 'acme', 'r', 'product', NULL, NULL, 1,
    '{"to":{"id":"r"}}', '{"decision":{"rules":[]},"timeline":[{"at":1}]}');
  ANALYZE live, notification`

describe('lists over many on PostgreSQL', needs('postgres'), () => {
  after(dropSchemas)

  async function opened(t: TestContext, name: string, text: string) {
    const url = schemaUrl(name)
    const store = await openAt(url, stillClock(epoch))
    t.after(() => store.close())
    await ask(url, text)
    const db = await explained(t, url)
    return { db, lists: createLists(db, '0', readRowsFor('0')) }
  }

  /** The ids of all pages, and the number of pages. */
  async function all(read: (cursor: string | null) => Promise<Page<Notification>>) {
    const ids: string[] = []
    let pages = 0
    for (let cursor: string | null | undefined; cursor !== null; pages += 1) {
      const page: Page<Notification> = await read(cursor ?? null)
      ids.push(...page.items.map(({ id }) => id))
      cursor = page.nextCursor
    }
    return { ids, pages }
  }

  test('find the few dead letters of a tenant among those of others', async (t) => {
    const { db, lists } = await opened(t, 'dead', fill('status, kind, cause', "5, 10, 'shed'"))
    const query = { tenant: 'acme', limit: 10 }
    const found = await all((cursor) => lists.deadLetters(cursor === null ? query : { ...query, cursor }))
    assert.deepEqual(found, { ids: ['n025000'], pages: 2 })
    const most = db.most()
    assert.ok(most <= 20_000, `one statement reads ${most} rows`)
    const named = await lists.deadLetters({ ...query, ids: ['n000001', 'n025000'] })
    assert.deepEqual([named.items.map(({ id }) => id), named.nextCursor], [['n025000'], null])
  })

  test('find the items of the one digest that is not open by steps from digest to digest', async (t) => {
    const { db, lists } = await opened(
      t,
      'orphans',
      `${fill('status, kind, digest', "2, 4, 'd' || lpad((n / 10)::text, 4, '0')")};
        INSERT INTO digest SELECT DISTINCT digest, 'other', digest, 'email', 'news', 'daily', 1, 2 FROM live WHERE digest < 'd2500';
        ANALYZE digest`,
    )
    const found = await all((cursor) => lists.orphans(cursor, 100))
    assert.deepEqual(found, { ids: ['n025000'], pages: 4 })
    const most = db.most()
    assert.ok(most <= 1_001, `one statement reads ${most} rows`)
  })
})
