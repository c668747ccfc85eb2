/** The writing connection of a process over PostgreSQL: which changes share a transaction. */
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { needs } from '../../../../../scripts/services/needs.ts'
import { someNotification, stillClock } from '../../../src/conformance/store/sample.ts'
import { ask, dropSchemas, openAt, schemaUrl } from './database.ts'

describe('the writer of a store on PostgreSQL', needs('postgres'), () => {
  after(dropSchemas)

  test('a change that the answer of a group sets off shares the next group', async (t) => {
    const url = schemaUrl('writer')
    const store = await openAt(url, stillClock(Date.now()))
    t.after(() => store.close())
    const accept = (id: string) => store.commit({ accept: [someNotification({ id })] })
    const first = accept('a')
    // The first group is under way by then.
    await turn()
    await turn()
    const waiting = accept('b')
    await first
    await turn()
    await accept('c')
    await waiting
    const rows = await ask(url, 'SELECT id, xmin::text FROM live ORDER BY id')
    const [a, b, c] = rows.map(({ xmin }) => xmin)
    assert.notEqual(a, b)
    assert.equal(b, c)
  })
})
