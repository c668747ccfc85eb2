/** The use of the policy by limit and window: what became of notifications, over a week of hours, in bounded memory. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createPolicyUse, type UsePeriod, useOf, type WindowUse } from '../../src/http/policy-use.ts'
import type { Decision, Notification } from '../../src/model.ts'
import type { Happening } from '../../src/stages.ts'
import { createHarness, hour } from '../harness.ts'

function start() {
  const listeners = new Set<(happening: Happening) => void>()
  const clock = { at: 0, now: () => clock.at }
  const use = createPolicyUse({
    clock,
    ledger: {
      subscribe(listener) {
        listeners.add(listener)
        return () => listeners.delete(listener)
      },
    },
  })
  const decide = (recipient: string, outcome: Decision['outcome'], admits: boolean, limit = 'mail') => {
    const rule = { limit, window: '2/day', used: 2, max: 2, remaining: 0, freesAt: null, admits }
    const decision: Decision = { outcome, policyVersion: 'v', rules: [rule] }
    const notification = { tenant: 't', to: { id: recipient }, decision } as Notification
    for (const listener of listeners) listener({ notification, events: [{ at: 0, status: 'accepted' }] })
  }
  const row = (period: UsePeriod): WindowUse | undefined => useOf([use.read(period)]).windows[0]
  return { clock, use, decide, row, listeners }
}

test('each outcome counts for the limits that did not admit it, and an admission for the others', () => {
  const { decide, row } = start()
  for (const [outcome, admits] of [
    ['send', true],
    ['delay', true],
    ['delay', false],
    ['suppress', false],
    ['digest', false],
    ['fallback', false],
  ] as const)
    decide('ada', outcome, admits)
  assert.deepEqual(row('1h'), {
    limit: 'mail',
    window: '2/day',
    admitted: 2,
    delayed: 1,
    dropped: 1,
    digested: 1,
    fellBack: 1,
    recipientsFull: 1,
  })
})

test('hours leave the report of an hour, a day and a week, and their slots are used again', () => {
  const { clock, use, decide, row } = start()
  decide('ada', 'delay', false)
  clock.at = hour
  assert.equal(row('1h'), undefined)
  assert.equal(row('1d')?.delayed, 1)
  assert.equal(use.read('7d').from, 0)
  clock.at = 167 * hour
  assert.equal(row('7d')?.delayed, 1)
  clock.at = 168 * hour
  assert.equal(row('7d'), undefined)
  decide('bob', 'delay', false)
  assert.deepEqual([row('7d')?.delayed, use.read('7d').from], [1, hour])
})

test('different recipients are estimated within a tenth, and few of them nearly exactly', () => {
  for (const count of [1, 5, 20, 1_000, 50_000]) {
    const { decide, row } = start()
    for (let index = 0; index < count; index += 1)
      for (const _ of [1, 2]) decide(`user-${index}`, 'delay', false)
    const found = row('1h')!.recipientsFull
    assert.ok(Math.abs(found - count) <= Math.max(1, count * 0.15), `${found} of ${count}`)
  }
})

test('two processes count together, and a recipient for whom both were full once', () => {
  const [one, two] = [start(), start()]
  two.clock.at = hour
  for (const { decide } of [one, two]) decide('ada', 'delay', false)
  two.decide('bob', 'digest', false)
  two.decide('bob', 'send', true, 'push')
  const { from, windows } = useOf([one.use.read('1d'), two.use.read('1d')])
  assert.equal(from, 0)
  assert.deepEqual(
    windows.map(({ limit, delayed, digested, admitted, recipientsFull }) => [
      limit,
      delayed,
      digested,
      admitted,
      recipientsFull,
    ]),
    [
      ['mail', 2, 1, 0, 2],
      ['push', 0, 0, 1, 0],
    ],
  )
})

test('above 400 windows the others count as one', () => {
  const { use, decide } = start()
  for (let index = 0; index < 1_000; index += 1) decide('ada', 'delay', false, `limit-${index}`)
  const { windows } = use.read('1h')
  assert.equal(windows.length, 401)
  assert.equal(windows.find(({ limit }) => limit === 'other')?.counts.delayed, 600)
})

test('a gateway counts the first decision of each notification once', async () => {
  const harness = await createHarness({
    policy: { version: 1, limits: [{ name: 'all', for: 'any', max: ['1/h'], over: 'delay' }] },
    config: { tenants: { default: { rate: '2/h', modules: 'unlimited' } } },
  })
  const use = createPolicyUse({ ledger: harness.gateway.ledger, clock: harness.clock })
  for (const recipient of ['ada', 'ada', 'bob']) await harness.post({ recipient })
  const of = () => useOf([use.read('7d')]).windows.find(({ limit }) => limit === 'all')
  assert.deepEqual(
    [of()?.admitted, of()?.delayed, of()?.recipientsFull],
    [1, 1, 1],
    'the third waits for its tenant',
  )
  await harness.runFor(3 * hour)
  assert.deepEqual([of()?.admitted, of()?.delayed], [2, 1])
  await harness.stop()
})
