import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createHarness, hour, minute, second } from '../harness.ts'

const tenantAnd = (mine: object, more: object = {}) => ({
  version: 1,
  limits: [
    { name: 'tenant', for: 'any', per: ['tenant'], max: ['1/h'], over: 'delay' },
    { name: 'mine', for: 'any', ...mine },
  ],
  ...more,
})

test('a notification delayed by a limit of the whole tenant reports that limit and every rule that was checked', async () => {
  const harness = await createHarness({ policy: tenantAnd({ max: ['9/h'], over: 'delay' }) })
  await harness.post({ recipient: 'bob' })
  const { decision } = await harness.post()
  assert.equal(decision.at, harness.start + hour + 20)
  assert.equal(decision.reason, 'recipient_limit')
  assert.equal(decision.limit, 'tenant')
  assert.deepEqual(
    decision.rules.map(({ limit, used, admits }) => [limit, used, admits]),
    [
      ['tenant', 1, false],
      ['mine', 0, true],
    ],
  )
  await harness.runFor(2 * hour)
  assert.deepEqual(
    harness.sent().map((message) => message.at - harness.start),
    [0, hour + 20],
  )
  await harness.check()
  await harness.stop()
})

test('limits under several subjects agree on the earliest time that all of them admit, also in a dry run', async () => {
  const harness = await createHarness({ policy: tenantAnd({ max: ['1/90min'], over: 'delay' }) })
  await harness.post()
  await harness.post({ recipient: 'bob' })
  const caller = { tenant: 'default', module: 'default' }
  const to = { id: 'ada', email: 'ada@example.com' }
  const content = { subject: 'x', text: 'x' }
  const draft = { to, channel: 'email', category: 'product', priority: 'normal', content } as const
  const dry = await harness.done(harness.gateway.gate.preview(caller, draft))
  const { decision } = await harness.post({ content })
  // Bob holds the slot of the second hour, so the end of ada's 90 minutes is too near to it.
  assert.equal(decision.at, harness.start + 2 * hour + 40)
  assert.deepEqual(dry.decision.at, decision.at)
  assert.equal(dry.decision.limit, decision.limit)
  await harness.runFor(3 * hour)
  assert.equal(harness.sent().length, 3)
  await harness.check()
  await harness.stop()
})

test('subjects that hold slots in alternation agree on a time after the last slot, for any number of slots', async () => {
  const apart = { for: 'any', max: ['1000/h'], minGap: '900ms', over: 'delay' }
  const harness = await createHarness({
    policy: {
      version: 1,
      limits: [
        { ...apart, name: 'person', per: ['recipient'] },
        { ...apart, name: 'author', per: ['actor'] },
      ],
    },
  })
  const at = (index: number): number => harness.start + index * second
  for (let index = 2; index <= 60; index += 2) {
    await harness.post({ sendAt: at(index) })
    await harness.post({ recipient: `reader-${index}`, actor: 'bob', sendAt: at(index + 1) })
  }
  const { decision } = await harness.post({ actor: 'bob', sendAt: at(2) })
  assert.equal(decision.at, at(61) + 920)
  await harness.runFor(2 * minute)
  assert.equal(harness.sent().length, 61)
  await harness.check()
  await harness.stop()
})

test('a limit that drops is checked at the first allowed time, under any subject', async () => {
  const harness = await createHarness({ policy: tenantAnd({ max: ['1/30min'], over: 'drop' }) })
  await harness.post()
  const { decision } = await harness.post()
  assert.equal(decision.reason, 'over_limit')
  assert.equal(decision.limit, 'mine')
  assert.equal((await harness.post({ recipient: 'bob' })).dueAt, harness.start + hour + 20)
  await harness.check()
  await harness.stop()
})

test('maxDelay bounds the whole delay over all subjects', async () => {
  const harness = await createHarness({
    policy: tenantAnd({ max: ['1/90min'], over: 'delay' }, { maxDelay: '100min' }),
  })
  await harness.post()
  await harness.post({ recipient: 'bob' })
  const late = await harness.post()
  assert.equal(late.status, 'suppressed', '90 minutes for ada, then the second hour of the tenant')
  assert.equal(late.decision.reason, 'over_limit')
  const expiring = await harness.post({ expiresAt: harness.start + 95 * minute })
  assert.equal(expiring.status, 'scheduled')
  await harness.runUntil(harness.start + 95 * minute)
  assert.equal((await harness.notification(expiring.id)).status, 'expired')
  assert.equal(
    (await harness.post({ recipient: 'eve' })).dueAt,
    harness.start + 2 * hour + 40,
    'nothing is left behind in either',
  )
  await harness.check()
  await harness.stop()
})
