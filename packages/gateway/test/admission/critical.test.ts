import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createHarness, hour, second } from '../harness.ts'

const start = Date.UTC(2026, 10, 21, 23)
const policy = {
  version: 1,
  limits: [{ name: 'all', for: 'any', max: ['1/h'], minGap: '1min', over: 'drop' }],
  digests: [
    {
      name: 'news',
      for: { template: 'new-comment' },
      window: '1h',
      minItems: 2,
      maxItems: 9,
      template: 'activity-digest',
    },
  ],
  deduplication: { window: '1h' },
  quietHours: {
    default: { from: '22:00', to: '08:00', channels: ['push', 'sms'] },
    legal: [{ channel: 'sms', allowed: '08:00-21:00' }],
    spread: '10min',
  },
  critical: { max: ['4/h'], over: 'drop' },
}

test('critical passes hours, limits, digests and duplicates at once, up to its own limit', async () => {
  const harness = await createHarness({
    start,
    policy,
    config: { tenants: { default: { rate: '1/min', modules: '1/min' } } },
  })
  const critical = {
    channel: 'sms',
    priority: 'critical',
    template: 'new-comment',
    data: { same: true },
  } as const
  for (let index = 0; index < 4; index += 1) {
    const { ok, ...admitted } = await harness.tryPost(critical)
    assert.ok(ok && 'notification' in admitted)
    assert.equal(admitted.queuedBehind, undefined)
    assert.equal(admitted.notification.decision.outcome, 'send')
  }
  const fifth = await harness.post(critical)
  assert.equal(fifth.decision.reason, 'over_limit')
  assert.equal(fifth.decision.limit, 'critical')
  await harness.runFor(second)
  assert.deepEqual(
    harness.sent().map((message) => message.at),
    [start, start, start, start],
  )
  const normal = await harness.post()
  assert.equal(normal.decision.limit, 'all', 'they count in the limits that they passed')
  await harness.check()
  await harness.stop()
})

test('critical yields to an opt-out of exactly its category and channel only', async () => {
  const harness = await createHarness({ start, policy })
  const critical = { category: 'security', priority: 'critical' } as const
  const optOut = (optOuts: readonly object[]) =>
    harness.done(
      harness.gateway.gate.saveRecipient({ tenant: 'default', id: 'ada', optOuts: optOuts as never }),
    )
  await optOut([{ category: 'security' }, { channel: 'email' }, {}])
  assert.equal((await harness.post(critical)).status, 'queued')
  await optOut([{ category: 'security', channel: 'email' }])
  assert.equal((await harness.post(critical)).decision.reason, 'opted_out')
  await harness.check()
  await harness.stop()
})

test('critical still waits for its sendAt, and is first when it leaves', async () => {
  const harness = await createHarness({
    start,
    policy: { version: 1, limits: [] },
    config: { pools: { email: { provider: 'sandbox', accounts: [{ id: 'slow', rate: '1/s' }] } } },
  })
  for (let index = 0; index < 5; index += 1) await harness.post({ recipient: `r${index}` })
  const late = await harness.post({ priority: 'critical', sendAt: start + hour })
  const now = await harness.post({ priority: 'critical', recipient: 'eve' })
  await harness.runFor(1.5 * second)
  assert.equal(harness.sent()[1]?.id, now.id)
  await harness.runUntil(start + hour + second)
  assert.equal((await harness.notification(late.id)).timeline.at(-1)?.at, start + hour)
  await harness.check()
  await harness.stop()
})
