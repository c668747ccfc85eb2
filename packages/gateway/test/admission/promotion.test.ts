/** Promotes in a throttle queue what is not on record yet when a place frees. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createHarness, type Harness, hour, second } from '../harness.ts'

test('the place of one that a full queue refuses goes to the first behind it, which is still being written', async () => {
  const limited = { version: 1, limits: [{ name: 'all', for: 'any', max: ['100/day'], over: 'delay' }] }
  const harness: Harness = await createHarness({
    policy: limited,
    config: { tenants: { default: { rate: '1/h', modules: 'unlimited', queue: 5 } } },
    wrap: (store) => ({
      ...store,
      async commit(change) {
        await new Promise<void>((resolve) => harness.clock.at(harness.clock.now() + 300, resolve))
        return store.commit(change)
      },
    }),
  })
  const posting = Promise.allSettled(
    Array.from({ length: 8 }, (_, index) => harness.post({ recipient: `r${index}` })),
  )
  await harness.runFor(15 * second)
  const accepted = (await posting).flatMap((end) => (end.status === 'fulfilled' ? [end.value] : []))
  assert.deepEqual(
    [accepted.length, accepted[0]?.status],
    [5, 'scheduled'],
    'the one that passed was refused',
  )
  assert.equal(harness.sent().length, 1)
  await harness.runFor(4 * hour + second)
  assert.equal(harness.sent().length, 5)
  await harness.check()
  await harness.stop()
})
