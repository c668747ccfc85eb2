/** Which process has which templates, and claims that pass over what is rendered with a missing one. */
import assert from 'node:assert/strict'
import type { Notification } from '../../model.ts'
import { due, type MembersTest, stored } from './members.ts'
import { epoch } from './sample.ts'
import { ids, must } from './suite.ts'

const keys = ['x/email', 'x/sms', 'y/email']

export function templates(test: MembersTest): void {
  test('leaves free what is rendered with a template that is missing', async (a, b) => {
    const { content: _, ...bare } = due(3)
    const [own, other, beside, sms] = await stored(
      a.store,
      due(1),
      { ...bare, template: 'y' },
      { ...due(4), template: 'x' },
      { ...bare, id: due(0).id, template: 'x', channel: 'sms' },
      { ...bare, id: due(0).id, template: 'x', dueAt: epoch + 5 },
    )
    const kept: readonly Notification[] = [own!, other!, sms!, beside!]
    const missing = ['x/email', 'z/email']
    for (const without of [['other'], []])
      assert.deepEqual(
        ids(await a.store.claimDue(epoch + 2, 10, without, [], missing)),
        without.length > 0 ? [own!.id] : [],
      )
    const claimed = ids(await a.store.claimDue(epoch + 10, 10, [], [], missing))
    assert.deepEqual([own!.id, ...claimed], ids(kept))
    assert.deepEqual(await a.store.claimDue(epoch + 10, 10, ['other'], [], missing), [])
    assert.equal((await b.store.claimDue(epoch + 10, 10, [], [], ['x/sms'])).length, 1)
  })

  test('claims what names a missing template and has a text that is kept apart', async (a) => {
    const { content: _, ...bare } = due(1)
    const apart = { ...bare, template: 'x' }
    const [text, data] = [
      { ...apart, shared: { id: 'text', bytes: 1 } },
      { ...apart, id: due(0).id, shared: { id: 'data', bytes: 1 } },
    ]
    const of = { tenant: text.tenant, bytes: 1 }
    await must(a.store, {
      accept: [text, data],
      contents: [
        { ...of, id: 'text', content: { text: 'own' } },
        { ...of, id: 'data', data: { n: 1 } },
      ],
    })
    assert.deepEqual(ids(await a.store.claimDue(epoch + 2, 10, [], [], ['x/email'])), [text.id])
  })

  test('claims all of the others where what is passed over fills a page', async (a) => {
    const { content: _, ...bare } = due(1)
    const passed = Array.from({ length: 20 }, () => ({ ...bare, id: due(0).id, template: 'x' }))
    const kept = Array.from({ length: 7 }, (_each, at) => ({
      ...due(2 + at),
      tenant: at < 3 ? 'acme' : 'other',
    }))
    await stored(a.store, ...passed, ...kept)
    const claimed: string[] = []
    for (const without of [[], [], ['nobody'], ['nobody']])
      claimed.push(...ids(await a.store.claimDue(epoch + 50, 4, without, [], ['x/email'])))
    assert.deepEqual(claimed.toSorted(), ids(kept).toSorted())
    assert.equal(a.store.claimedUntil(), epoch + 50)
    const rest: string[] = []
    while (rest.length < 20) rest.push(...ids(await a.store.claimDue(epoch + 50, 10)))
    assert.deepEqual(rest.toSorted(), ids(passed).toSorted())
  })

  test('knows which templates another living process has, and takes one that has not told for one that has any', async (a, b, fleet) => {
    const others = async () => a.store.templatesOfOthers!(keys)
    await a.store.tellTemplates!(keys)
    assert.deepEqual(await others(), keys, 'the other one has not told')
    await b.store.tellTemplates!(['y/email', 'x/sms', 'more/email'])
    assert.deepEqual((await others()).toSorted(), ['x/sms', 'y/email'])
    await b.store.tellTemplates!([])
    assert.deepEqual(await others(), [], 'its own do not count')
    const c = await fleet.join()
    await c.store.tellTemplates!(['x/email'])
    assert.deepEqual(await others(), ['x/email'])
    await c.kill()
    assert.deepEqual(await others(), [])
    await b.store.tellTemplates!(['x/sms'])
    await b.store.close()
    assert.deepEqual(await others(), [])
  })
}
