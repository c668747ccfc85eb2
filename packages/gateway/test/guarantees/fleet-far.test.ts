/** Two gateways whose Redis is far away: with a wider slot they use the rate of an account, and do not exceed it. */
import assert from 'node:assert/strict'
import process from 'node:process'
import { after, describe, test } from 'node:test'
import { needs } from '../../../../scripts/services/needs.ts'
import { dropSchemas } from '../store/postgres/database.ts'
import { startProxy } from '../store/postgres/proxy.ts'
import { callsOfTenant, startFleet } from './fleet.ts'
import { overfull } from './windows.ts'

/** Answers come so much later than they were given. */
const farMs = 10
const rate = 40
const count = 200

describe('two gateways with a Redis that is far away', needs('postgres', 'redis'), () => {
  after(dropSchemas)

  test('use the rate of an account in slots that are wide enough, and no third one counts in others', async (t) => {
    const proxy = await startProxy(process.env.SLUICE_TEST_REDIS!)
    t.after(() => proxy.close())
    proxy.delayAnswers(farMs)
    const fleet = await startFleet(t, {
      name: 'far',
      count: 3,
      redis: proxy.url,
      rate: [`${rate}/s`],
      slotOf: (n) => (n === 2 ? '20ms' : '100ms'),
    })
    const beganAt = Date.now()
    const answers = await Promise.all(
      Array.from({ length: count }, (_, n) => fleet.post(n % 2, { tenant: 'acme' })),
    )
    for (const { status, text } of answers) assert.equal(status, 202, text)
    const calls = await callsOfTenant(fleet, 'acme', count, 30_000)
    t.diagnostic(`${calls.length} calls of ${count} within ${Date.now() - beganAt} ms`)
    assert.equal(calls.length, count)
    assert.equal(
      overfull(
        calls.map(({ at }) => at),
        { max: rate, windowMs: 1_000 },
      ),
      0,
    )
  })
})
