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
import { onceScript } from '../../../../src/adapters/state/redis/scripts.ts'
import { startProxy } from '../../../store/postgres/proxy.ts'
import { createThrottleRecord } from './throttle-record.ts'

const rates = { tenant: [parseWindow('2/60s')], module: [] }
const request = (id: string) => ({ id, module: 'shop' })
/** A busy machine may run a timer late. */
const latenessMs = 3_000

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

  it('takes an answer that came in time while this process was busy beyond the deadline', async (t) => {
    const { throttle, used } = await open(t, { deadlineMs: 1_500 })
    await until(async () => (await used()) === 0)
    const passing = throttle.pass('acme', [request('a')])
    // The question has left after some turns.
    for (let turn = 0; turn < 5; turn += 1) await new Promise((resolve) => setImmediate(resolve))
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2_500)
    assert.equal((await passing)!.places[0]!.waits, false)
  })

  it('opens another connection where the answer to its greeting or to its registration is lost', async (t) => {
    const service = await startRedis()
    t.after(() => service.stop())
    const proxy = await startProxy(service.url)
    t.after(proxy.close)
    for (const lost of ['SELECT', 'SCRIPT']) {
      proxy.forgetAt(lost)
      const redis = createRedisState({
        url: `${proxy.url}/1`,
        registrations: createMemoryRegistrations(),
        clock: createSystemClock(),
        deadlineMs: 400,
      })
      t.after(() => redis.close())
      const ask = () => redis.ask(onceScript, { subject: 'k/any', name: '' }, ['keep', 'm', '', '1'])
      await assert.rejects(ask, unavailable)
      await until(() => ask().then(() => true))
    }
  })

  it('answers all that is asked at once before it is registered, in their order, however many they are', async (t) => {
    const { throttle, admin, used } = await open(t, { deadlineMs: 2_000 })
    const asked = (first: number) =>
      Promise.all(
        Array.from({ length: 200 }, (_, index) => throttle.pass('acme', [request(`n${first + index}`)])),
      )
    const places = (await asked(0)).map((passed) => passed!.places[0]!.at)
    assert.deepEqual(
      places,
      places.toSorted((one, other) => one - other),
    )
    await admin.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
    await sleep(50)
    await asked(200)
    assert.equal(await used(), 2)
  })

  it('keeps a connection whose registration takes the record long', async (t) => {
    const registrations = createMemoryRegistrations()
    let registered = 0
    const { used } = await open(t, {
      deadlineMs: 500,
      registrations: {
        async register(life) {
          registered += 1
          await sleep(2_600)
          return registrations.register(life)
        },
      },
    })
    await until(async () => (await used()) === 0)
    assert.equal(registered, 1)
  })

  it('goes on with a server that has forgotten the scripts, in the order in which it was asked', async (t) => {
    const { admin, throttle, used } = await open(t)
    await throttle.pass('acme', [request('a')])
    await admin.script('FLUSH')
    // More than go out at once.
    const ids = Array.from({ length: 300 }, (_, index) => `n${index}`)
    const passed = await Promise.all(ids.map((id) => throttle.pass('acme', [request(id)])))
    const places = passed.map((each) => each!.places[0]!.at)
    assert.deepEqual(
      places,
      places.toSorted((one, other) => one - other),
    )
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

  it('sends a server that has no memory left no scripts, and goes on as soon as it has', async (t) => {
    const { admin, used } = await open(t, { deadlineMs: 400 })
    await until(async () => (await used()) === 0)
    await admin.config('SET', 'maxmemory', '1mb')
    await admin.config('RESETSTAT')
    await admin.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
    await sleep(50)
    for (let n = 0; n < 5; n += 1) await assert.rejects(used, { ...unavailable, message: /OOM/ })
    assert.doesNotMatch(await admin.info('commandstats'), /script\|load/)
    await admin.config('SET', 'maxmemory', '0')
    await until(async () => (await used()) === 0)
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

  it('takes no answer of a server whose clock was set on by less than the deadline', async (t) => {
    const system = createSystemClock()
    let serverAheadMs = 0
    const clock = { ...system, now: () => system.now() - serverAheadMs }
    const { throttle } = await open(t, { clock })
    const placeOf = async (id: string) =>
      (await throttle.pass('acme', [{ ...request(id), isCritical: true }]))!.places[0]!.at
    await until(async () => (await placeOf('a')) > 0)
    serverAheadMs = 3_000
    await assert.rejects(() => placeOf('b'), { ...unavailable, message: /its clock was set on/ })
    const before = clock.now()
    const place = await placeOf('c')
    assert.ok(place >= before - 100 && place <= clock.now() + 100, `${place} lies between ${before} and now`)
  })

  it('reads the clock of a server again that goes too fast, before any answer is wrong', async (t) => {
    const system = createSystemClock()
    let serverAheadMs = 0
    const clock = { ...system, now: () => system.now() - serverAheadMs }
    const { throttle, used } = await open(t, { clock })
    await until(async () => (await used()) === 0)
    const tookMs: number[] = []
    for (let round = 0; round < 40; round += 1) {
      serverAheadMs += 2
      const askedAt = performance.now()
      try {
        const { at } = (await throttle.pass('acme', [{ ...request(`r${round}`), isCritical: true }]))!
          .places[0]!
        assert.ok(at <= clock.now() + 20, `round ${round}: ${at - clock.now()} ms ahead`)
      } catch (error) {
        if (!/its clock was set on/.test(String(error))) throw error
        // The lateness of an answer hides by how much the clock is ahead: behind slow answers it may be refused at once.
        assert.ok(Math.max(...tookMs.slice(-3)) > 4, String(error))
      }
      tookMs.push(performance.now() - askedAt)
    }
  })

  it('leaves a server in whose place another process has met another one, when it hears of that', async (t) => {
    const [deposed, newest] = [await startRedis(), await startRedis()]
    t.after(() => Promise.all([deposed.stop(), newest.stop()]))
    const proxy = await startProxy(deposed.url)
    t.after(proxy.close)
    const clock = createSystemClock()
    const registrations = createMemoryRegistrations()
    const record = createThrottleRecord('acme')
    const join = () => {
      const redis = createRedisState({ url: proxy.url, registrations, clock, deadlineMs: 5_000 })
      t.after(() => redis.close())
      const throttle = createRedisThrottle({ redis, record, clock, marginMs: 20, ratesOf: () => rates })
      return {
        redis,
        used: async () => (await throttle.use('acme', 'shop'))[0]!.used,
        async pass(id: string) {
          const [place] = (await throttle.pass('acme', [request(id)]))!.places
          record.passed.set(id, { ...request(id), at: place!.at, isCritical: false })
        },
      }
    }
    const first = join()
    await first.pass('a')
    proxy.leadTo(newest.url)
    const second = join()
    await second.pass('b')
    assert.equal(await first.used(), 1, 'its connection still leads to the deposed server')
    const { host } = new URL(proxy.url)
    assert.equal(first.redis.expect(new Map([[host, 1]])), false, 'it is the one that this process has met')
    assert.ok(first.redis.expect(new Map([[host, 2]])), 'it is newer')
    await until(async () => (await first.used()) === 2)
    assert.equal(first.redis.expect(new Map([[host, 2]])), false)
    assert.equal(await first.used(), 2)
  })

  it('goes on where the record has lost its last commits, and gives a lesser number than before', async (t) => {
    const asked: number[] = []
    let number = 100
    const register = () => {
      asked.push(number)
      return number
    }
    const { service, admin, used } = await open(t, { registrations: { register } })
    const redis = createRedisState({
      url: service.url,
      registrations: { register },
      clock: createSystemClock(),
      deadlineMs: 1_000,
    })
    t.after(() => redis.close())
    const keep = () => redis.ask(onceScript, { subject: 'k/any', name: '' }, ['keep', 'm', '', '1'])
    await until(async () => (await used()) === 0)
    await until(() => keep().then(() => true))
    number = 40
    // One hears of it; the connection of the other is lost.
    redis.expect(new Map([[new URL(service.url).host, number]]))
    await until(() => keep().then(() => true))
    assert.deepEqual(asked, [100, 100, 40])
    await admin.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
    await until(async () => (await used()) === 0)
  })

  it('leaves a server that was demoted behind its address, though its connection stays open', async (t) => {
    const [demoted, promoted] = [await startRedis(), await startRedis()]
    t.after(() => Promise.all([demoted.stop(), promoted.stop()]))
    const proxy = await startProxy(demoted.url)
    t.after(proxy.close)
    const { throttle } = await open(t, { url: proxy.url, deadlineMs: 1_500 })
    const admin = new Redis(demoted.url)
    t.after(() => admin.disconnect())
    await until(async () => (await throttle.pass('acme', [request('a')])) !== undefined)
    await admin.replicaof('127.0.0.1', Number(new URL(promoted.url).port))
    // The address still leads there when the first connection is left.
    await assert.rejects(async () => throttle.use('acme', 'shop'), unavailable)
    await assert.rejects(async () => throttle.use('acme', 'shop'), {
      ...unavailable,
      message: /is no master/,
    })
    proxy.leadTo(promoted.url)
    await until(async () => (await throttle.use('acme', 'shop'))[0]!.used === 0)
  })

  it('refuses a server whose clock it cannot read well enough, and asks it again until it can', async (t) => {
    const service = await startRedis()
    t.after(() => service.stop())
    const proxy = await startProxy(service.url)
    t.after(proxy.close)
    const errors: unknown[] = []
    const { throttle } = await open(t, {
      url: proxy.url,
      deadlineMs: 4_000,
      onError: (error) => errors.push(error),
    })
    proxy.delayAnswers(50)
    await assert.rejects(async () => throttle.pass('acme', [request('a')]), {
      ...unavailable,
      message: /the clock of .* cannot be read: the quickest of 25 answers took \d+ ms, of 20 ms at most/,
    })
    assert.match(String(errors.at(-1)), /the clock of/)
    const passing = throttle.pass('acme', [request('a')])
    await sleep(200)
    proxy.delayAnswers(0)
    const [place] = (await passing)!.places
    assert.ok(Math.abs(place!.at - Date.now()) < 5_000)
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

/** Waits for what becomes true within 30 s; an answer that is unavailable is none yet. */
async function until(isTrue: () => Promise<boolean>): Promise<void> {
  const sinceMs = performance.now()
  let last: unknown
  while (
    !(await isTrue().catch((error: unknown) => {
      last = error
      return false
    }))
  ) {
    assert.ok(performance.now() - sinceMs < 30_000, `it has not become true: ${String(last)}`)
    await sleep(20)
  }
}
