/** Two gateways whose addresses of Redis differ: what they decide is exact, whatever the addresses lead to. */
import assert from 'node:assert/strict'
import process from 'node:process'
import { after, describe, test } from 'node:test'
import { needs } from '../../../../scripts/services/needs.ts'
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
})
