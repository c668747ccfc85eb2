/**
 * Two gateways over one record and one Redis: limits of recipients and rates of accounts hold over both, as a sink counts.
 * `SLUICE_FLUSHES=3` lets Redis lose everything so often besides, which takes some 15 s.
 */
import assert from 'node:assert/strict'
import process from 'node:process'
import { after, describe, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { Redis } from 'ioredis'
import { needs } from '../../../../scripts/services/needs.ts'
import { startRedis } from '../../../../scripts/services/redis.ts'
import { dropSchemas } from '../store/postgres/database.ts'
import { callsOfTenant, inParallel, startFleet } from './fleet.ts'
import { overfull } from './windows.ts'

const policy = {
  version: 1,
  limits: [{ name: 'few', for: 'any', max: ['2/1s', '4/4s'], over: 'delay' }],
  maxDelay: '10min',
}

interface Shown {
  readonly accounts: readonly { readonly rate: string; readonly inFlight: number }[]
}

describe('two gateways with one Redis', needs('postgres', 'redis'), () => {
  after(dropSchemas)

  test('send no recipient more than its limits, however both are asked', async (t) => {
    const fleet = await startFleet(t, { name: 'recipients', policy })
    const people = 8
    const answers = await inParallel(people * 6, 40, (n) =>
      fleet.post(Math.floor(n / people) % 2, {
        tenant: 'burst',
        body: { recipient: { id: `p${n % people}` } },
      }),
    )
    for (const { status, text } of answers) assert.equal(status, 202, text)
    // Four within the first four seconds.
    const calls = await callsOfTenant(fleet, 'burst', people * 4, 10_000)
    assert.ok(calls.length >= people * 4, `${calls.length} calls`)
    for (const [id, own] of Map.groupBy(calls, ({ recipient }) => recipient)) {
      const instants = own.map(({ at }) => at)
      assert.equal(overfull(instants, { max: 2, windowMs: 1_000 }), 0, `${id}: 2/1s`)
      assert.equal(overfull(instants, { max: 4, windowMs: 4_000 }), 0, `${id}: 4/4s`)
    }
    assert.equal(new Set(calls.map(({ id }) => id)).size, calls.length, 'each once')
  })

  test('call an account no faster than its rate, and show the same of it', async (t) => {
    const rate = ['10/s', '20/4s']
    const fleet = await startFleet(t, { name: 'rates', rate })
    await inParallel(60, 40, (n) => fleet.post(n % 2, { tenant: 'busy' }))
    // Twenty within the first four seconds, and twenty behind them.
    const calls = await callsOfTenant(fleet, 'busy', 40, 15_000)
    const instants = calls.map(({ at }) => at)
    assert.equal(overfull(instants, { max: 10, windowMs: 1_000 }), 0, '10/s')
    assert.equal(overfull(instants, { max: 20, windowMs: 4_000 }), 0, '20/4s')
    assert.ok(calls.length >= 40, `${calls.length} calls`)
    // The calls under way are those of one process.
    const shown = async (at: number) => {
      const { pools } = (await fleet.sites[at]!.call('GET', '/api/v1/pools')).json<{
        readonly pools: readonly Shown[]
      }>()
      return pools.map(({ accounts }) => accounts.map(({ inFlight: _, ...account }) => account))
    }
    for (const end = performance.now() + 20_000; ; ) {
      const [first, second] = await Promise.all([shown(0), shown(1)])
      if (performance.now() < end && !isDeepStrictEqual(first, second)) await sleep(50)
      else {
        assert.deepEqual(first, second)
        assert.equal(first[0]![0]!.rate, '10/s, 20/4s')
        break
      }
    }
  })

  const flushesMax = Number(process.env.SLUICE_FLUSHES ?? 0)
  const losing = async (t: TestContext): Promise<void> => {
    const service = await startRedis()
    t.after(() => service.stop())
    const admin = new Redis(service.url)
    t.after(() => admin.disconnect())
    const fleet = await startFleet(t, { name: 'losing', redis: service.url, policy, rate: ['10/s'] })
    const people = 8
    const flushing = (async () => {
      for (let flushes = 0; flushes < flushesMax; flushes += 1, await sleep(2_200)) await admin.flushall()
    })()
    const answers = await inParallel(people * 5, 8, (n) =>
      fleet.post(Math.floor(n / people) % 2, {
        tenant: 'losing',
        body: { recipient: { id: `p${n % people}` } },
      }),
    )
    for (const { status, text } of answers) assert.equal(status, 202, text)
    await flushing
    const calls = await callsOfTenant(fleet, 'losing', people * 4, 12_000)
    assert.ok(calls.length >= people * 4, `${calls.length} calls`)
    const instants = calls.map(({ at }) => at)
    assert.equal(overfull(instants, { max: 10, windowMs: 1_000 }), 0, '10/s')
    for (const [id, own] of Map.groupBy(calls, ({ recipient }) => recipient)) {
      const ofOne = own.map(({ at }) => at)
      assert.equal(overfull(ofOne, { max: 2, windowMs: 1_000 }), 0, `${id}: 2/1s`)
      assert.equal(overfull(ofOne, { max: 4, windowMs: 4_000 }), 0, `${id}: 4/4s`)
    }
  }
  if (flushesMax > 0) test('hold both while Redis loses everything again and again', losing)
})
