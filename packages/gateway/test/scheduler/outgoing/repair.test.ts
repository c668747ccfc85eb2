/** The repair of what is left to a broker, in virtual time, with a broker whose connection does not hold. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { epoch } from '../../../src/conformance/store/sample.ts'
import { Repair } from '../../../src/scheduler/outgoing/repair.ts'
import { createVirtualClock } from '../../../src/simulation/clock.ts'

/** A tenant of whom notifications are left to the broker, which are freed at once; `freedAt`: after how long, ms. */
function startRepair(look: () => Promise<{ readonly ready: number }>) {
  const clock = createVirtualClock(epoch)
  const freedAt: number[] = []
  const repair = new Repair({
    queues: { isOpen: () => repair.awaySince === undefined, look, consume: () => {}, release: () => {} },
    left: {
      tenants: async () => (freedAt.length === 0 ? ['acme'] : []),
      free: async () => {
        freedAt.push(clock.now() - epoch)
        return 3
      },
    },
    members: { holds: () => true },
    clock,
    waiting: () => 0,
    prefetchOf: () => 10,
    onFreed: () => {},
    onError: () => {},
  })
  repair.start()
  return { clock, repair, freedAt }
}

test('a connection that is lost every second leaves nothing with the broker for 30 s', async () => {
  const { clock, repair, freedAt } = startRepair(() => Promise.reject(new Error('the channel was closed')))
  for (let second = 1; second <= 30; second += 1) {
    repair.away()
    await clock.runUntil(epoch + second * 1_000 - 100)
    repair.back()
    await clock.runUntil(epoch + second * 1_000)
  }
  await repair.stop()
  assert.equal(freedAt.length, 1)
})

test('frees what a broker has that is away for two seconds', async () => {
  const { clock, repair, freedAt } = startRepair(async () => ({ ready: 1 }))
  await clock.runUntil(epoch + 1_500)
  repair.away()
  await clock.runUntil(epoch + 3_500)
  await repair.stop()
  assert.deepEqual(freedAt, [3_500])
})

test('frees nothing while messages wait in the queue', async () => {
  const { clock, repair, freedAt } = startRepair(async () => ({ ready: 1 }))
  await clock.runUntil(epoch + 120_000)
  await repair.stop()
  assert.deepEqual(freedAt, [])
})
