/** Who holds a notification: claims, what is released, postponed or passed over, and what leaves a digest. */
import assert from 'node:assert/strict'
import { advance } from '../../model.ts'
import { due, type MembersTest, stored } from './members.ts'
import { epoch, someDigest } from './sample.ts'
import { ids, must } from './suite.ts'

export function holding(test: MembersTest): void {
  test('gives each due notification to one of two processes that claim at once', async (a, b) => {
    await stored(a.store, ...Array.from({ length: 60 }, (_, at) => due(at)))
    const claimed = new Set<string>()
    for (let round = 0; round < 10; round += 1)
      for (const page of await Promise.all([
        a.store.claimDue(epoch + 99, 7),
        b.store.claimDue(epoch + 99, 7),
      ]))
        for (const { id } of page) {
          assert.ok(!claimed.has(id), 'claimed twice')
          claimed.add(id)
        }
    assert.equal(claimed.size, 60)
  })

  test('gives what one process releases or postpones to another', async (a, b) => {
    const [one, two] = await stored(a.store, due(1), due(2))
    assert.equal((await a.store.claimDue(epoch + 10, 10)).length, 2)
    assert.deepEqual(await b.store.claimDue(epoch + 10, 10), [])
    await a.store.releaseDue([one!])
    const later = advance(two!, [{ at: epoch, status: 'scheduled' }], { dueAt: epoch + 100_000 })
    await must(a.store, { moves: [later] })
    assert.deepEqual(ids(await b.store.claimDue(epoch + 200_000, 10)), ids([one!, later.after]))
  })

  test('leaves free what is of a channel that is passed over', async (a, b) => {
    const [mail, sms] = await stored(a.store, due(1), { ...due(2), channel: 'sms' })
    assert.deepEqual(ids(await a.store.claimDue(epoch + 10, 10, ['other'], ['sms'])), [mail!.id])
    assert.deepEqual(await a.store.claimDue(epoch + 10, 10, [], ['sms']), [])
    assert.deepEqual(ids(await b.store.claimDue(epoch + 10, 10)), [sms!.id])
  })

  test('releases nothing that another process holds', async (a, b) => {
    const [one] = await stored(a.store, due(1))
    await a.store.claimDue(epoch + 10, 10)
    await b.store.releaseDue([one!])
    assert.deepEqual(await b.store.claimDue(epoch + 10, 10), [])
  })

  test('frees what a process held when it closes', async (a, b) => {
    const list = await stored(a.store, due(1), due(2))
    await a.store.claimDue(epoch + 10, 10)
    await a.store.close()
    assert.deepEqual(ids(await b.store.claimDue(epoch + 10, 10)), ids(list))
    assert.deepEqual(await b.store.takeOver(epoch + 20, 10), [])
  })

  test('gives what leaves a digest at its instant to the process that closes it', async (a, b) => {
    const digest = someDigest({ closesAt: epoch + 5 })
    const [item] = await stored(a.store, { ...due(5), status: 'digesting', digestId: digest.id })
    await must(a.store, { digests: [{ kind: 'open', digest }] })
    await b.store.claimDue(epoch + 10, 10)
    const leaves = advance(item!, [{ at: epoch + 5, status: 'queued' }])
    await must(b.store, { moves: [leaves], digests: [{ kind: 'close', digest, left: 0 }] })
    assert.deepEqual(ids(await b.store.heldOnRecord(epoch + 10, null, 10)), [item!.id])
    await b.store.close()
    assert.deepEqual(ids(await a.store.claimDue(epoch + 10, 10)), [item!.id])
  })
}
