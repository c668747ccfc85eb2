/** The connection to Redis: deadlines, registrations, scripts that a server forgot, clocks, and calls that come late. */
import assert from 'node:assert/strict'
import process from 'node:process'
import { describe, it, type TestContext } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseWindow } from '@sluice/limits'
import { Redis } from 'ioredis'
import { isAtHand, needs } from '../../../../../../scripts/services/needs.ts'
import { startRedis } from '../../../../../../scripts/services/redis.ts'
import { createSystemClock } from '../../../../src/adapters/clock.ts'
import { slotOf } from '../../../../src/adapters/state/redis/key-slot.ts'
import { createMemoryRegistrations } from '../../../../src/adapters/state/redis/memory-registrations.ts'
import { createRedisState, type RedisStateOptions } from '../../../../src/adapters/state/redis/redis-state.ts'
import { createRedisThrottle } from '../../../../src/adapters/state/redis/redis-throttle.ts'
import { createThrottleRecord } from './throttle-record.ts'

const rates = { tenant: [parseWindow('2/60s')], module: [] }
const request = (id: string) => ({ id, module: 'shop' })
/** A busy machine may run a timer late. */
const latenessMs = 1_000

/** A server of its own, with throttle queues over it. */
async function open(t: TestContext, options: Partial<RedisStateOptions> = {}) {
  const service = await startRedis()
  t.after(() => service.stop())
  const admin = new Redis(service.url)
  t.after(() => admin.disconnect())
  const clock = createSystemClock()
  const record = createThrottleRecord('acme')
  const redis = createRedisState({
    url: service.url,
    registrations: createMemoryRegistrations(),
    clock,
    deadlineMs: 5_000,
    ...options,
  })
  t.after(() => redis.close())
  const throttle = createRedisThrottle({ redis, record, clock, marginMs: 20, ratesOf: () => rates })
  const used = async () => (await throttle.use('acme', 'shop'))[0]!.used
  return { service, admin, record, throttle, used }
}

const unavailable = { code: 'STATE_UNAVAILABLE' }

describe('the state in Redis', needs('redis'), () => {
  it('rejects by its deadline while the server is stopped, and what it was asked counts nothing later', async (t) => {
    const { service, throttle, used } = await open(t, { deadlineMs: 400 })
    await until(async () => (await used()) === 0)
    process.kill(service.pid!, 'SIGSTOP')
    const startMs = performance.now()
    await assert.rejects(async () => throttle.pass('acme', [request('a')]), unavailable)
    const tookMs = performance.now() - startMs
    // Both clocks may differ by so much that a call which is late by less is still worked.
    await sleep(200)
    process.kill(service.pid!, 'SIGCONT')
    assert.ok(tookMs >= 390 && tookMs < 400 + latenessMs, `it took ${tookMs} ms`)
    await until(async () => (await used()) === 0)
  })

  it('goes on with a server that has forgotten the scripts', async (t) => {
    const { admin, throttle, used } = await open(t)
    await throttle.pass('acme', [request('a')])
    await admin.script('FLUSH')
    const passed = await Promise.all(['b', 'c'].map((id) => throttle.pass('acme', [request(id)])))
    assert.deepEqual(passed.map((each) => each!.places[0]!.waits).sort(), [false, true])
    assert.equal(await used(), 2)
  })

  it('fills the queues anew behind a restart and a promotion, under another generation', async (t) => {
    const { admin, record, throttle } = await open(t)
    const [first] = (await throttle.pass('acme', [request('a')]))!.places
    record.passed.set('a', { ...request('a'), at: first!.at, isCritical: false })
    // A place that nobody has put on record: it is lost with the life of the server.
    await throttle.pass('acme', [request('b')])
    await admin.replicaof('127.0.0.1', 1)
    await admin.replicaof('NO', 'ONE')
    await until(async () => (await throttle.use('acme', 'shop'))[0]!.used === 1)
    const [again] = (await throttle.pass('acme', [request('c')]))!.places
    assert.deepEqual([again!.waits, again!.generation! > first!.generation!], [false, true])
    await throttle.takeBack('acme', [{ ...request('a'), place: first! }])
    assert.equal((await throttle.use('acme', 'shop'))[0]!.used, 2, 'a place of an earlier generation is gone')
  })

  it('answers nothing while the server is a replica', async (t) => {
    const { admin, throttle } = await open(t, { deadlineMs: 300 })
    await until(async () => (await throttle.pass('acme', [request('a')])) !== undefined)
    await admin.replicaof('127.0.0.1', 1)
    await assert.rejects(async () => throttle.use('acme', 'shop'), unavailable)
  })

  it('reads the clock of the server again when the clock of the fleet has moved', async (t) => {
    const system = createSystemClock()
    let stepMs = 0
    const clock = { ...system, now: () => system.now() + stepMs }
    const { throttle } = await open(t, { clock })
    const at = async (id: string) =>
      (await throttle.pass('acme', [{ ...request(id), isCritical: true }]))!.places[0]!.at
    await at('a')
    for (const ms of [3_600_000, -3_600_000]) {
      stepMs += ms
      const before = clock.now()
      const place = await at('b')
      assert.ok(
        place >= before - 100 && place <= clock.now() + 100,
        `${place} lies between ${before} and now`,
      )
    }
  })
})

it('finds the slot of a key as the cluster does', needs('redis-cluster'), async (t) => {
  assert.ok(isAtHand('redis-cluster'))
  const [url] = (process.env.SLUICE_TEST_REDIS_CLUSTER ?? '').split(',')
  const node = new Redis(url!)
  t.after(() => node.disconnect())
  for (const key of ['sl:{T/acme}:room', '{}', 'a{b}{c}', '{ü}', 'a}{b', 'x{', ''])
    assert.equal(slotOf(key), await node.cluster('KEYSLOT', key), key)
})

/** Waits for what becomes true within 10 s; an answer that is unavailable is none yet. */
async function until(isTrue: () => Promise<boolean>): Promise<void> {
  const sinceMs = performance.now()
  let last: unknown
  while (
    !(await isTrue().catch((error: unknown) => {
      last = error
      return false
    }))
  ) {
    assert.ok(performance.now() - sinceMs < 10_000, `it has not become true: ${String(last)}`)
    await sleep(20)
  }
}
