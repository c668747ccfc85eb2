/** The limits of tenants are filled from PostgreSQL by statements none of which reads all that has passed in a long window. */
import assert from 'node:assert/strict'
import { after, describe, type TestContext, test } from 'node:test'
import { needs } from '../../../../../scripts/services/needs.ts'
import { epoch, stillClock } from '../../../src/conformance/store/sample.ts'
import { createAdmissions } from '../../../src/store/postgres/admissions.ts'
import { readRowsFor } from '../../../src/store/postgres/codec.ts'
import { ask, dropSchemas, openAt, schemaUrl } from './database.ts'
import { type ExplainedDb, explained } from './explained.ts'

const count = 25_000

describe('what has passed the limits of a tenant on PostgreSQL', needs('postgres'), () => {
  after(dropSchemas)

  async function opened(t: TestContext, name: string): Promise<ExplainedDb> {
    const url = schemaUrl(name)
    const store = await openAt(url, stillClock(epoch))
    t.after(() => store.close())
    // Very many pass at the same instant, and the last of them was accepted first.
    await ask(
      url,
      `INSERT INTO notification SELECT 'n' || n, n, 'acme', 'r', 'product', NULL, NULL, ${epoch} - n,
            '{"module":"shop","priority":"normal","to":{"id":"r"}}', '{"decision":{"rules":[]},"timeline":[{"at":1},{"at":1}]}'
          FROM generate_series(1, ${count}) n;
        INSERT INTO outcome (id, tenant, channel, status, at, due_at, attempts, turned_at)
          SELECT 'n' || n, 'acme', 'email', 6, 1, 1, 1, ${epoch} + greatest(n, 5000) FROM generate_series(1, ${count}) n;
        ANALYZE notification, outcome`,
    )
    return explained(t, url)
  }

  test('is counted from the first acceptance on, page by page', async (t) => {
    const db = await opened(t, 'counted')
    const { counted } = createAdmissions(db, (_, id) => id, readRowsFor('0'))
    const { items } = await counted({ tenant: 'acme', since: epoch, accepted: true, limit: 10 })
    assert.equal(items[0]?.id, `n${count}`)
    const most = db.most()
    assert.ok(most <= 10_001, `one statement reads ${most} rows`)
  })
})
