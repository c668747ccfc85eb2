import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { createHarness, hour, minute, second } from '../harness.ts'

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

test('a critical notification bypasses quiet hours, limits, digests and deduplication, up to its own limit', async () => {
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
    const admitted = await harness.tryPost(critical)
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
  await harness.runFor(2 * minute)
  const normal = await harness.post()
  assert.equal(normal.decision.limit, 'all', 'they count in the limits that they passed')
  await harness.check()
  await harness.stop()
})

test('a critical notification is suppressed only by an opt-out of exactly its category and channel', async () => {
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

test('a critical notification waits for its sendAt and then leaves first', async () => {
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

test('a critical notification passes tenant and module limits and counts in them, also after a restart', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-critical-'))
  const options = {
    file: join(folder, 'sluice.db'),
    policy: { version: 1, limits: [] },
    config: { tenants: { default: { rate: '3/min', modules: '2/min' } } },
  }
  const harness = await createHarness(options)
  await harness.post({ priority: 'critical' })
  await harness.post()
  assert.equal((await harness.post()).decision.reason, 'module_limit')
  const urgent = await harness.postMany([{ priority: 'critical' }, { priority: 'critical' }])
  assert.deepEqual(
    urgent.map((each) => each.status),
    ['queued', 'queued'],
  )
  const other = { tenant: 'default', module: 'other' }
  assert.equal((await harness.post({}, other)).decision.reason, 'tenant_limit')
  await harness.runFor(second)
  await harness.stop()
  const restarted = await createHarness({ ...options, start: harness.start + 2 * second })
  assert.equal((await restarted.post({}, other)).decision.reason, 'tenant_limit')
  await restarted.runFor(5 * minute)
  await restarted.check()
  await restarted.stop()
  rmSync(folder, { recursive: true })
})
