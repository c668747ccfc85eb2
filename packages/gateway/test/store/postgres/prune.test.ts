/** Retention in a large record on PostgreSQL: it removes what is over, and what is written meanwhile does not wait for it. */
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { needs } from '../../../../../scripts/services/needs.ts'
import { epoch, someNotification, stillClock } from '../../../src/conformance/store/sample.ts'
import { ask, dropSchemas, openAt, schemaUrl } from './database.ts'

describe('retention on PostgreSQL', needs('postgres'), () => {
  after(dropSchemas)

  test('looks through many contents without holding up what is committed meanwhile', async (t) => {
    const url = schemaUrl('contents')
    const store = await openAt(url, stillClock(epoch))
    t.after(() => store.close())
    await ask(
      url,
      `INSERT INTO content SELECT 'c' || n, 'acme', 10, '{}' FROM generate_series(1, 40000) n;
        INSERT INTO notification SELECT 'n' || n, n, 'acme', 'r', 'product', NULL, 'c' || n, ${epoch}, '{}', '{}'
          FROM generate_series(1, 40000) n WHERE n % 10000 > 0`,
    )
    const left = () => ask(url, 'SELECT count(*)::int AS left FROM content')
    // Every gateway asks how old the record is, and one of them prunes.
    await store.prune({ answers: 0, notifications: 0 })
    assert.deepEqual(await left(), [{ left: 40_000 }])
    let isPruning = true
    const pruning = store.prune({ answers: 0, notifications: 1 }).finally(() => {
      isPruning = false
    })
    let commits = 0
    for (; isPruning; commits += 1) await store.commit({ accept: [someNotification()] })
    await pruning
    assert.ok(commits > 10, `${commits} commits while contents were looked through`)
    assert.deepEqual(await left(), [{ left: 39_996 }])
  })
})
