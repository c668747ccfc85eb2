import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { SluiceError } from '../../src/errors.ts'
import { createScripted, delivered, throttled } from '../delivery/scripted.ts'
import { createHarness, hour, second } from '../harness.ts'

const codeOf = (work: Promise<unknown>): Promise<string> =>
  work.then(
    () => 'accepted',
    (error: unknown) => (error instanceof SluiceError ? error.code : String(error)),
  )

test('a full queue refuses a whole batch, takes a tenth more of critical notifications, and does not affect other tenants', async () => {
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

test('a queue of four has one additional place for critical notifications', async () => {
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

test('a notification refused with QUEUE_FULL consumes nothing of the limits', async () => {
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

const wide = { version: 1, limits: [] }
const bytes = (max: string) => ({
  tenants: { default: { rate: 'unlimited', modules: 'unlimited', bytes: max } },
})
const large = (kib: number) => ({ subject: 'Large', text: 'x'.repeat(kib * 1_024) })
/** Builds drafts as the batch route does: all of them share one content object. */
function batchOf(count: number, kib: number, sendAt: number) {
  const content = large(kib)
  const shared = { content, bytes: JSON.stringify(content).length }
  return Array.from({ length: count }, (_, index) => ({
    to: { id: `r${index}`, email: `r${index}@example.com` },
    shared,
    sendAt,
  }))
}

test('a tenant over its bytes of waiting content gets QUEUE_FULL, above a tenth more also for critical, until some has left', async () => {
  const harness = await createHarness({ policy: wide, config: bytes('1MiB') })
  const sendAt = harness.start + hour
  await harness.post({ content: large(600), sendAt })
  assert.equal(await codeOf(harness.post({ content: large(600), sendAt })), 'QUEUE_FULL')
  assert.equal(
    await codeOf(harness.post({ content: large(600), sendAt }, { tenant: 'other', module: 'm' })),
    'accepted',
  )
  await harness.post({ content: large(400), sendAt })
  assert.equal(await codeOf(harness.post({ content: large(100), sendAt })), 'QUEUE_FULL')
  assert.equal(await codeOf(harness.post({ content: large(100), priority: 'critical' })), 'accepted')
  await harness.runFor(2 * hour)
  assert.equal(await codeOf(harness.post({ content: large(600), sendAt: sendAt + 2 * hour })), 'accepted')
  await harness.check()
  await harness.stop()
})

test('the content of a batch counts once and is released with the last recipient', async () => {
  const harness = await createHarness({ policy: wide, config: bytes('1MiB') })
  const sendAt = harness.start + hour
  const first = await harness.postMany(batchOf(100, 600, sendAt))
  const { bytes: held } = harness.gateway.ledger.occupancy('default')
  assert.ok(held > 600 * 1_024 && held < 601 * 1_024, `${held} bytes`)
  assert.equal(await codeOf(harness.postMany(batchOf(2, 600, sendAt))), 'QUEUE_FULL')
  for (const { id } of first.slice(1)) await harness.done(harness.gateway.gate.cancel('default', id))
  assert.equal(harness.gateway.ledger.occupancy('default').bytes, held)
  await harness.done(harness.gateway.gate.cancel('default', first[0]!.id))
  assert.equal(harness.gateway.ledger.occupancy('default').bytes, 0)
  await harness.stop()
})

test('bytes of waiting content are restored after a restart', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-bytes-'))
  t.after(() => rmSync(folder, { recursive: true }))
  const options = { policy: wide, config: bytes('1MiB'), file: join(folder, 'store.db') }
  const first = await createHarness(options)
  const sendAt = first.start + hour
  await first.postMany(batchOf(10, 300, sendAt))
  await first.post({ content: large(300), sendAt })
  await first.post({ content: { subject: 'small', text: 'small' }, sendAt })
  const before = first.gateway.ledger.occupancy('default')
  await first.stop()
  const second = await createHarness(options)
  assert.deepEqual(second.gateway.ledger.occupancy('default'), before)
  await second.runFor(2 * hour)
  assert.equal(second.sent().length, 12)
  assert.deepEqual(
    new Set(second.sent().map(({ message }) => (message.content.text as string).length)),
    new Set([300 * 1_024, 5]),
  )
  assert.deepEqual(second.gateway.ledger.occupancy('default'), { queue: 0, waiting: 0, bytes: 0 })
  await second.check()
  await second.stop()
})

test('queued notifications and waiting batches keep no content in memory', async () => {
  const harness = await createHarness({ policy: wide })
  const [one] = await harness.postMany(batchOf(2, 600, harness.start + hour))
  const other = await harness.post({ content: large(64), sendAt: harness.start + hour })
  for (const notification of [one!, other]) {
    assert.equal(notification.content, undefined)
    assert.equal((await harness.notification(notification.id)).content, undefined)
  }
  await harness.stop()
})
