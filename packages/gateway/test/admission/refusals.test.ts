import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createHarness, hour, minute } from '../harness.ts'

test('a maximum of nothing refuses also what would expire, and a digest, each item with its reason', async () => {
  const harness = await createHarness({
    policy: {
      version: 1,
      limits: [{ name: 'none', for: 'any', max: ['0/day'], over: 'delay' }],
      digests: [
        {
          name: 'news',
          for: { template: 'new-comment' },
          window: '10min',
          minItems: 2,
          maxItems: 9,
          template: 'activity-digest',
        },
      ],
    },
  })
  const expiring = await harness.post({ expiresAt: harness.start + hour })
  assert.equal(expiring.status, 'suppressed')
  assert.equal(expiring.decision.reason, 'over_limit')
  const items = []
  for (let index = 0; index < 3; index += 1)
    items.push(await harness.post({ template: 'new-comment', data: { index } }))
  await harness.runFor(11 * minute)
  for (const { id } of items) {
    const ended = await harness.notification(id)
    assert.equal(ended.status, 'suppressed')
    assert.equal(ended.decision.reason, 'over_limit')
    assert.equal(ended.decision.limit, 'none')
  }
  assert.equal(harness.sent().length, 0)
  await harness.check()
  await harness.stop()
})
