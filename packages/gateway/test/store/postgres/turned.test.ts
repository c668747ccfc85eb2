/** The limits of tenants are filled from PostgreSQL by statements none of which reads all that has passed in a long window. */
import assert from 'node:assert/strict'
import { after, describe, type TestContext, test } from 'node:test'
import { needs } from '../../../../../scripts/services/needs.ts'
import { epoch, stillClock } from '../../../src/conformance/store/sample.ts'
import { createAdmissions } from '../../../src/store/postgres/admissions.ts'
import { readRowsFor } from '../../../src/store/postgres/codec.ts'
import { createTenantRecords } from '../../../src/store/postgres/fleet/tenant-records.ts'
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

  test('is named page by page, each once', async (t) => {
    const db = await opened(t, 'named')
    const { counted } = await createTenantRecords(db).entries('acme', epoch)
    assert.equal(counted.length, count)
    const most = db.most()
    assert.ok(most <= 10_001, `one statement reads ${most} rows`)
  })

  test('tenants of which some still wait are known by the counts', async (t) => {
    const url = schemaUrl('tenants')
    const store = await openAt(url, stillClock(epoch))
    t.after(() => store.close())
    await ask(
      url,
      `INSERT INTO live (id, seq, tenant, recipient, channel, priority, bytes, status, kind, rev, due_at, attempts)
          SELECT 'n' || n, n, 'acme', 'r', 'email', 'normal', 0, 1, 3, 1, 1, 0 FROM generate_series(1, 5000) n;
        INSERT INTO tally VALUES ('acme', 1, 3, 5010, 0), ('acme', 2, 3, -10, 0), ('other', 1, 3, 9, 0), ('other', 2, 3, -9, 0), ('more', 1, 2, 9, 0)`,
    )
    const db = await explained(t, url)
    assert.deepEqual(await createTenantRecords(db).waitingTenants(), ['acme'])
    const most = db.most()
    assert.ok(most <= 10, `one statement reads ${most} rows`)
  })
})
