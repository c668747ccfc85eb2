/** Two gateways whose addresses of Redis differ: what they decide is exact, whatever the addresses lead to. */
import assert from 'node:assert/strict'
import process from 'node:process'
import { after, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { needs } from '../../../../scripts/services/needs.ts'
import type { Site } from '../child.ts'
import { dropSchemas } from '../store/postgres/database.ts'
import { callsOfTenant, startFleet } from './fleet.ts'

describe('two gateways with different addresses of Redis', needs('postgres', 'redis'), () => {
  after(dropSchemas)

  test('send as with one address where both are names of one server', async (t) => {
    const redis = process.env.SLUICE_TEST_REDIS!
    const fleet = await startFleet(t, {
      name: 'names',
      redisOf: (n) => (n === 0 ? redis : redis.replace('127.0.0.1', 'localhost')),
      tenants: { acme: { rate: '10/day' } },
    })
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, n) => fleet.post(n % 2, { tenant: 'acme' })),
    )
    for (const { status, text } of answers) assert.ok(status === 202 || status === 429, text)
    await Promise.all(Array.from({ length: 20 }, (_, n) => fleet.post(n % 2, { tenant: 'other' })))
    assert.equal((await callsOfTenant(fleet, 'other', 20, 10_000)).length, 20)
    assert.equal((await callsOfTenant(fleet, 'acme', 11, 1_000)).length, 10)
  })

  test('count in one place at a time, and exceed no limit when they change to another one and back', async (t) => {
    const redis = process.env.SLUICE_TEST_REDIS!
    const fleet = await startFleet(t, {
      name: 'places',
      redisOf: (n) => (n === 0 ? redis : `${redis.replace(/\/$/, '')}/1`),
      policy: { version: 1, limits: [{ name: 'few', for: 'any', max: '3/1d', over: 'delay' }] },
    })
    const [first, second] = fleet.sites as [Site, Site]
    const post = async (at: number, count: number, id: string): Promise<void> => {
      for (let n = 0; n < count; n += 1) {
        const { status, text } = await fleet.post(at, { tenant: id, body: { recipient: { id } } })
        assert.equal(status, 202, text)
      }
    }
    const calls = async (id: string, count: number): Promise<void> =>
      assert.equal((await callsOfTenant(fleet, id, count, 20_000)).length, count)
    await post(0, 2, 'ada')
    await calls('ada', 2)
    await post(1, 5, 'ada')
    const { text } = await second.call('GET', '/readyz')
    assert.match(text, /state: .*Gateways that are running count limits in the keys \S+ of database 0 of /)
    // The first has gone: the second counts in its own place, and knows from the record what was sent.
    await post(0, 1, 'bob')
    await calls('bob', 1)
    await calls('ada', 2)
    await first.terminate()
    await post(1, 2, 'bob')
    await calls('bob', 3)
    await calls('ada', 3)
    assert.match((await second.call('GET', '/metrics')).text, /^sluice_limits_read_total [1-9]/m)
    await second.terminate()
    // Its former place holds one of the three.
    await first.start()
    await post(0, 5, 'bob')
    await post(0, 1, 'eve')
    await calls('eve', 1)
    await sleep(1_000)
    await calls('bob', 3)
    await calls('ada', 3)
  })
})
