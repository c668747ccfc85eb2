/** Two gateways whose Redis is far away: in wide and in usual slots they use the rate of an account, and do not exceed it. */
import assert from 'node:assert/strict'
import process from 'node:process'
import { after, describe, test } from 'node:test'
import { needs } from '../../../../scripts/services/needs.ts'
import { dropSchemas } from '../store/postgres/database.ts'
import { startProxy } from '../store/postgres/proxy.ts'
import { callsOfTenant, startFleet } from './fleet.ts'
import { overfull } from './windows.ts'

/** Answers come so much later than they were given. */
const farMs = 17
const rate = 40
const count = 200

describe('two gateways with a Redis that is far away', needs('postgres', 'redis'), () => {
  after(dropSchemas)

  for (const [slot, other] of [
    ['100ms', '20ms'],
    ['20ms', '100ms'],
  ] as const)
    test(`use the rate of an account in slots of ${slot}, and no third one counts in others`, async (t) => {
      const proxy = await startProxy(process.env.SLUICE_TEST_REDIS!)
      t.after(() => proxy.close())
      proxy.delayAnswers(farMs)
      const fleet = await startFleet(t, {
        name: `far_${slot}`,
        count: 3,
        redis: proxy.url,
        rate: [`${rate}/s`],
        slotOf: (n) => (n === 2 ? other : slot),
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
