/** The count of what waits for shared contents on PostgreSQL, which a start reads, where very many wait. */
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { needs } from '../../../../../scripts/services/needs.ts'
import { epoch, stillClock } from '../../../src/conformance/store/sample.ts'
import { createWaitingContents } from '../../../src/store/postgres/waiting-contents.ts'
import { ask, dropSchemas, openAt, schemaUrl } from './database.ts'
import { explained } from './explained.ts'

describe('what waits for shared contents on PostgreSQL', needs('postgres'), () => {
  after(dropSchemas)

  test('is counted in pages, each of which has all of its contents', async (t) => {
    const url = schemaUrl('shared')
    const store = await openAt(url, stillClock(epoch))
    t.after(() => store.close())
    // The first content alone is more than a page; a page ends within the third, and of the last one nothing waits.
    await ask(
      url,
      `CREATE TEMPORARY TABLE waits AS SELECT n, CASE WHEN n <= 21000 THEN 'a' WHEN n <= 37000 THEN 'b' WHEN n <= 43000 THEN 'c' ELSE 'd' END AS shared
          FROM generate_series(1, 43010) n;
        INSERT INTO live (id, seq, tenant, recipient, channel, priority, shared, bytes, status, kind, rev, due_at, attempts)
          SELECT 'n' || n, n, 'acme', 'r', 'email', 'normal', shared, 0, 1, CASE WHEN n > 43000 THEN 11 ELSE 2 END, 1, 1, 0 FROM waits;
        INSERT INTO content SELECT id, 'acme', 9, '{}' FROM unnest('{a,b,c,d}'::text[]) id;
        INSERT INTO job SELECT 'j', 'acme', 1, 'running', 0, 'c', '{}';
        ANALYZE live, content`,
    )
    const db = await explained(t, url)
    const { waitingContents } = createWaitingContents(db)
    assert.deepEqual(await waitingContents(), [
      { id: 'a', tenant: 'acme', bytes: 9, waiting: 21_000 },
      { id: 'b', tenant: 'acme', bytes: 9, waiting: 16_000 },
      { id: 'c', tenant: 'acme', bytes: 9, waiting: 6_001 },
    ])
    const most = db.most()
    assert.ok(most <= 21_000, `one statement reads ${most} rows`)
  })
})
