/** Promotes in a throttle queue what is not on record yet when a place frees. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SluiceError } from '../../src/errors.ts'
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

test('those whose place frees leave then also where the record cannot be read at that moment', async () => {
  const limited = { version: 1, limits: [{ name: 'all', for: 'any', max: ['100/day'], over: 'delay' }] }
  let awayUntil = 0
  let reads = 0
  const harness: Harness = await createHarness({
    policy: limited,
    config: { tenants: { default: { rate: '1/h', modules: 'unlimited' } } },
    wrap: (store) => ({
      ...store,
      async notification(...asked) {
        if (harness.clock.now() >= awayUntil) return store.notification(...asked)
        reads += 1
        throw new SluiceError('STORE_UNAVAILABLE', 'The record is away.', { retryAfterMs: 1_000 })
      },
    }),
  })
  const posted = []
  for (let index = 0; index < 4; index += 1) posted.push(await harness.post({ recipient: `r${index}` }))
  for (const { id } of posted.slice(1, 3)) await harness.done(harness.gateway.gate.cancel('default', id))
  // Longer than a commit may take: until then the entry could be one of nobody.
  awayUntil = posted[1]!.dueAt + 30 * second
  await harness.runUntil(posted[1]!.dueAt + 40 * second)
  assert.ok(reads > 0)
  assert.deepEqual(
    harness.sent().map(({ id }) => id),
    [posted[0]!.id, posted[3]!.id],
  )
  await harness.check()
  await harness.stop()
})
