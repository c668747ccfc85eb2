import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createHarness, day, minute } from '../harness.ts'
import { broken, createScripted, delivered } from './scripted.ts'

test('a retry within quiet hours waits for their end and records the reason', async () => {
  const { provider, calls } = createScripted((number) => (number === 1 ? broken : delivered))
  const harness = await createHarness({
    start: Date.UTC(2026, 10, 21, 21, 59, 59, 999),
    policy: {
      version: 1,
      limits: [],
      quietHours: { default: { from: '22:00', to: '08:00', channels: ['push'] }, spread: '10min' },
    },
    parts: { providers: [provider] },
  })
  const { id } = await harness.post({ channel: 'push' })
  await harness.runFor(minute)
  const waiting = await harness.notification(id)
  assert.equal(waiting.status, 'scheduled')
  assert.equal(waiting.timeline.at(-1)?.reason, 'quiet_hours')
  const end = Date.UTC(2026, 10, 22, 8)
  assert.ok(waiting.dueAt >= end && waiting.dueAt < end + 10 * minute)
  await harness.runFor(day)
  assert.equal(calls.length, 2)
  const ended = await harness.notification(id)
  assert.equal(ended.status, 'delivered')
  assert.equal(ended.timeline.at(-1)?.at, waiting.dueAt)
  await harness.check()
  await harness.stop()
})
