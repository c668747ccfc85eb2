/** Cancelling a notification that another process of the record is sending. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Store } from '../../src/ports.ts'
import { createHarness, minute } from '../harness.ts'

test('a notification that another process is sending is not cancellable, whether it is in memory here or not', async () => {
  for (const inMemory of [false, true]) {
    let isSentElsewhere = false
    const harness = await createHarness({
      policy: { version: 1, limits: [] },
      wrap: (store: Store) => ({
        ...store,
        // A store of several processes shows a row so while another one has the right to send it.
        async notification(tenant, id) {
          const row = await store.notification(tenant, id)
          return isSentElsewhere && row !== undefined ? { ...row, status: 'sending' } : row
        },
      }),
    })
    const { id, status } = await harness.post({ sendAt: harness.clock.now() + minute })
    assert.equal(status, 'scheduled')
    const live = harness.gateway.ledger.live(id)
    if (inMemory) harness.gateway.ledger.hold(await harness.notification(id))
    else if (live !== undefined) harness.gateway.ledger.release(live.notification)
    isSentElsewhere = true
    await assert.rejects(harness.gateway.gate.cancel('default', id), { code: 'NOT_CANCELLABLE' })
    isSentElsewhere = false
    assert.equal((await harness.notification(id)).status, 'scheduled')
    await harness.stop()
  }
})
