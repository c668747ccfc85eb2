/** Claims that pass over what is rendered with a missing template, on a real PostgreSQL. */
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { needs } from '../../../../../scripts/services/needs.ts'
import { due } from '../../../src/conformance/store/members.ts'
import { epoch, stillClock } from '../../../src/conformance/store/sample.ts'
import { must } from '../../../src/conformance/store/suite.ts'
import { dropSchemas, openAt, schemaUrl } from './database.ts'

describe('claims beside a missing template on PostgreSQL', needs('postgres'), () => {
  after(dropSchemas)

  test('look at ten pages of what is due and no further, however long the backlog is', async (t) => {
    const store = await openAt(schemaUrl('templates'), stillClock(epoch), '1')
    t.after(() => store.close())
    const { content: _, ...bare } = due(0)
    const lacked = Array.from({ length: 11 }, () => ({ ...bare, id: due(0).id, template: 'x' }))
    const behind = due(1)
    await must(store, { accept: [...lacked, behind] })
    const claim = (limit: number) => store.claimDue(epoch + 2, limit, [], [], ['x/email'])
    assert.deepEqual(await claim(1), [])
    assert.deepEqual(
      (await claim(2)).map(({ id }) => id),
      [behind.id],
    )
  })
})
