import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SluiceError } from '../../src/errors.ts'
import { createScripted, delivered, throttled } from '../delivery/scripted.ts'
import { createHarness, hour, second } from '../harness.ts'

const codeOf = (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => 'accepted',
    (error: unknown) => (error instanceof SluiceError ? error.code : String(error)),
  )

test('a full queue takes nothing of a batch, a tenth more of what is critical, and all of other tenants', async () => {
  const { provider } = createScripted((number) => (number === 1 ? throttled('60') : delivered))
  const harness = await createHarness({
    policy: { version: 1, limits: [] },
    config: { tenants: { default: { rate: 'unlimited', modules: 'unlimited', queue: 20, waiting: 3 } } },
    parts: { providers: [provider] },
  })
  for (let index = 0; index < 18; index += 1) await harness.post({ recipient: `r${index}` })
  await harness.runFor(second)
  assert.equal(await codeOf(harness.postMany([{}, {}, {}])), 'QUEUE_FULL')
  assert.equal(harness.counts().queued, 18)
  assert.equal(await codeOf(harness.postMany([{}, {}])), 'accepted')
  assert.equal(await codeOf(harness.post()), 'QUEUE_FULL')
  const critical = { priority: 'critical' } as const
  assert.equal(await codeOf(harness.postMany([critical, critical, critical])), 'QUEUE_FULL')
  assert.equal(await codeOf(harness.postMany([critical, critical])), 'accepted')
  assert.equal(await codeOf(harness.post(critical)), 'QUEUE_FULL')
  assert.equal(await codeOf(harness.post({}, { tenant: 'other', module: 'm' })), 'accepted')
  const waiting = { sendAt: harness.start + hour }
  assert.equal(await codeOf(harness.postMany([waiting, waiting, waiting])), 'accepted')
  assert.equal(await codeOf(harness.post(waiting)), 'QUEUE_FULL')
  await harness.runFor(60 * second)
  assert.equal(await codeOf(harness.post()), 'accepted')
  await harness.runFor(hour)
  assert.equal(harness.counts().delivered, 18 + 2 + 2 + 1 + 3 + 1)
  await harness.check()
  await harness.stop()
})

test('a queue of four has one place on top for what is critical', async () => {
  const { provider } = createScripted((number) => (number === 1 ? throttled('60') : delivered))
  const harness = await createHarness({
    policy: { version: 1, limits: [] },
    config: { tenants: { default: { rate: 'unlimited', modules: 'unlimited', queue: 4, waiting: 3 } } },
    parts: { providers: [provider] },
  })
  await harness.post()
  await harness.runFor(second)
  await harness.postMany([{}, {}, {}])
  assert.equal(await codeOf(harness.post()), 'QUEUE_FULL')
  assert.equal(await codeOf(harness.post({ priority: 'critical' })), 'accepted')
  assert.equal(await codeOf(harness.post({ priority: 'critical' })), 'QUEUE_FULL')
  await harness.runFor(61 * second)
  assert.equal(harness.counts().delivered, 5)
  await harness.check()
  await harness.stop()
})

test('what was refused because the queue is full consumed nothing of the limits', async () => {
  const { provider } = createScripted((number) => (number === 1 ? throttled('60') : delivered))
  const harness = await createHarness({
    policy: {
      version: 1,
      limits: [{ name: 'all', for: 'any', max: ['2/h'], over: 'drop' }],
      deduplication: { window: '1h' },
    },
    config: { tenants: { default: { rate: '3/min', modules: 'unlimited', queue: 1 } } },
    parts: { providers: [provider] },
  })
  await harness.post({ recipient: 'bob' })
  await harness.runFor(second)
  const content = { subject: 'once', text: 'once' }
  assert.equal(await codeOf(harness.postMany([{ content }, {}])), 'QUEUE_FULL')
  assert.equal(await codeOf(harness.post({ content })), 'QUEUE_FULL')
  await harness.runFor(60 * second)
  assert.equal((await harness.post({ content })).status, 'queued')
  await harness.runFor(second)
  assert.equal((await harness.post()).status, 'queued')
  await harness.runFor(second)
  assert.equal((await harness.post()).decision.reason, 'over_limit')
  await harness.check()
  await harness.stop()
})
