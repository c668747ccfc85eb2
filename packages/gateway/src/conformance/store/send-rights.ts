/** The right to send: what a store gives before a call is made. */
import assert from 'node:assert/strict'
import { advance } from '../../model.ts'
import { epoch, settled, someNotification } from './sample.ts'
import type { StoreCapabilities, Test } from './suite.ts'
import { applied, must } from './suite.ts'

export function sendRights(test: Test, { checksRights }: StoreCapabilities): void {
  test('gives the right to send to what is on record, asked again too, and it settles under it', async (store) => {
    const queued = someNotification()
    const scheduled = someNotification({ status: 'scheduled' })
    await must(store, { accept: [queued, scheduled] })
    const requests = [{ notification: queued }, { notification: scheduled }]
    for (let asked = 0; asked < 2; asked += 1) {
      const { refused, forMs } = await store.begin(requests)
      assert.deepEqual([...refused], [])
      assert.ok(forMs > 0)
    }
    assert.deepEqual(await store.commit({ moves: [settled(queued, epoch + 1)] }), applied)
    assert.deepEqual([...(await store.begin([])).refused], [])
  })

  test('gives the right to send to a notification as a move has left it', async (store) => {
    const first = someNotification()
    await must(store, { accept: [first] })
    const retry = advance(first, [{ at: epoch, status: 'scheduled' }], { dueAt: epoch + 5, attempts: 1 })
    await must(store, { moves: [retry] })
    assert.deepEqual([...(await store.begin([{ notification: retry.after }])).refused], [])
  })

  if (checksRights) {
    test('refuses the right to send a version that is not on record any more, and gives it to the others', async (store) => {
      const [moved, ended, stays, unknown] = Array.from({ length: 4 }, () => someNotification())
      await must(store, { accept: [moved!, ended!, stays!] })
      await must(store, {
        moves: [
          advance(moved!, [{ at: epoch, status: 'scheduled' }], { dueAt: epoch + 5 }),
          settled(ended!, epoch + 1),
        ],
      })
      const { refused } = await store.begin(
        [moved, ended, stays, unknown].map((notification) => ({ notification: notification! })),
      )
      assert.deepEqual(refused, new Set([moved!.id, ended!.id, unknown!.id]))
    })

    test('gives no right to send to a notification whose cancellation was applied', async (store) => {
      for (let round = 0; round < 20; round += 1) {
        const notification = someNotification()
        await must(store, { accept: [notification] })
        const cancelled = advance(notification, [{ at: epoch, status: 'cancelled' }])
        const [, given] = await Promise.all([
          store.commit({ moves: [cancelled] }),
          store.begin([{ notification }]),
        ])
        const after = await store.begin([{ notification }])
        const isCancelled = (await store.notification('acme', notification.id))?.status === 'cancelled'
        // A right that was given while the cancellation went through would send what was answered as cancelled.
        assert.equal(isCancelled, after.refused.has(notification.id))
        if (isCancelled) assert.ok(given.refused.has(notification.id))
      }
    })
  }
}
