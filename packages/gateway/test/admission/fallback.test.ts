import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createHarness, hour } from '../harness.ts'

const digests = [
  {
    name: 'news',
    for: { template: 'new-comment' },
    window: '1h',
    minItems: 2,
    maxItems: 9,
    template: 'activity-digest',
  },
]
const limit = (name: string, channel: string, over: string, max = '1/h') => ({
  name,
  for: { channel },
  max: [max],
  over,
})

for (const [weaker, stronger, status] of [
  ['delay', 'fallback:push', 'queued'],
  ['fallback:push', 'digest:news', 'digesting'],
  ['digest:news', 'drop', 'suppressed'],
] as const) {
  test(`of several refusing limits ${stronger} wins over ${weaker}`, async () => {
    const limits = [limit('weaker', 'email', weaker), limit('stronger', 'email', stronger)]
    const harness = await createHarness({ policy: { version: 1, limits, digests } })
    await harness.post()
    const posted = await harness.post()
    assert.equal(posted.status, status)
    assert.equal(posted.decision.limit, 'stronger')
    await harness.runFor(3 * hour)
    await harness.check()
    await harness.stop()
  })
}

test('a fallback is evaluated anew with the limits, digest and address of its channel', async () => {
  const harness = await createHarness({
    policy: {
      version: 1,
      limits: [limit('sms', 'sms', 'fallback:email', '0/h'), limit('email', 'email', 'digest:news')],
      digests,
    },
  })
  const sent = await harness.post({ channel: 'sms' })
  assert.deepEqual(
    [sent.channel, sent.requestedChannel, sent.decision.outcome, sent.decision.limit],
    ['email', 'sms', 'fallback', 'sms'],
  )
  const rulesOf = ({ decision }: typeof sent) =>
    decision.rules.map((rule) => [rule.limit, rule.used, rule.max, rule.admits])
  assert.deepEqual(rulesOf(sent), [
    ['sms', 0, 0, false],
    ['email', 0, 1, true],
  ])
  const collected = await harness.post({ channel: 'sms' })
  assert.deepEqual(
    [collected.status, collected.channel, collected.requestedChannel, collected.decision.limit],
    ['digesting', 'email', 'sms', 'email'],
  )
  const nowhere = await harness.post({ channel: 'sms', to: { id: 'bob', phone: '+390612345678' } })
  assert.equal(nowhere.status, 'suppressed')
  assert.equal(nowhere.decision.reason, 'invalid_address')
  assert.deepEqual(rulesOf(nowhere), [['sms', 0, 0, false]])
  await harness.done(
    harness.gateway.gate.saveRecipient({ tenant: 'default', id: 'eve', optOuts: [{ channel: 'email' }] }),
  )
  assert.equal((await harness.post({ channel: 'sms', recipient: 'eve' })).decision.reason, 'opted_out')
  await harness.runFor(3 * hour)
  assert.deepEqual(
    harness.sent().map((message) => message.channel),
    ['email', 'email'],
  )
  await harness.check()
  await harness.stop()
})
