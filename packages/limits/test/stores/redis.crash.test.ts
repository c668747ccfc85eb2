/**
 * Outages: calls while Redis does not answer: frozen, slow, killed, emptied, restarted, its scripts flushed.
 * Each call ends by its deadline as the options say, and the next one after the recovery is right.
 */
import assert from 'node:assert/strict'
import process from 'node:process'
import { after, before, describe, it } from 'node:test'
import { setTimeout as wait } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { type RedisOptions, startRedis } from '../../../../scripts/services/redis.ts'
import type { Service } from '../../../../scripts/services/service.ts'
import {
  createLimits,
  type Limits,
  LimitsError,
  limit,
  type RedisStoreOptions,
  redisStore,
} from '../../src/index.ts'
import { startWire } from './wire.ts'

const rules = [limit('four', '4/day')]
/** A busy machine may run a timer late; a call without a deadline would take for ever. */
const patienceMs = 5_000
const isUnavailable = (error: unknown) => error instanceof LimitsError && error.code === 'STORE_UNAVAILABLE'

describe('the Redis store in trouble', () => {
  let service: Service
  let client: Redis
  const start = (options: RedisOptions = {}) => startRedis({ ...options, args: ['--appendfsync', 'always'] })
  const open = (options: RedisStoreOptions = {}): Limits =>
    createLimits({ store: redisStore(client, { deadlineMs: 100, ...options }) })
  /** Long enough for what is only slow because the machine is busy. */
  const patient = () => open({ deadlineMs: 20_000 })

  before(async () => {
    service = await start()
    client = new Redis(service.url, { enableAutoPipelining: true, retryStrategy: () => 50 })
    client.on('error', () => {})
  })
  after(async () => {
    client.disconnect()
    await service.stop()
  })

  async function inTime<T>(call: () => Promise<T>): Promise<T> {
    const startMs = performance.now()
    try {
      return await call()
    } finally {
      assert.ok(performance.now() - startMs < patienceMs, `it took ${performance.now() - startMs} ms`)
    }
  }

  it('ends each call by its deadline while Redis is frozen, and counts rightly when it thaws', async () => {
    await patient().take('frozen', rules)
    const heard: LimitsError[] = []
    process.kill(service.pid, 'SIGSTOP')
    try {
      await inTime(() =>
        assert.rejects(open({ onError: (error) => heard.push(error) }).take('frozen', rules), isUnavailable),
      )
      await inTime(() => assert.rejects(open().cancel('frozen', 'n'), isUnavailable))
      const admit = await inTime(() => open({ onUnavailable: 'admit' }).take('frozen', rules))
      assert.deepEqual([admit.allowed, admit.held, admit.retryAfterMs], [true, false, 0])
      const refuse = await inTime(() => open({ onUnavailable: 'refuse' }).take('frozen', rules))
      assert.deepEqual([refuse.allowed, refuse.held, refuse.retryAfterMs], [false, false, 1_000])
      const half = open({ onUnavailable: { share: 0.5 } })
      const shared = []
      for (let call = 0; call < 3; call += 1) shared.push(await inTime(() => half.take('frozen', rules)))
      assert.deepEqual(
        shared.map(({ allowed }) => allowed),
        [true, true, false],
      )
    } finally {
      process.kill(service.pid, 'SIGCONT')
    }
    assert.equal(heard.length, 1)
    // Calls that had run out of time were counted after the thaw: fewer are left, never more.
    const next = await patient().take('frozen', rules)
    assert.equal(next.allowed, false)
    assert.equal(next.rules[0]!.used, 4)
  })

  it('ends each call by its deadline while answers take half a second, and not before where it may wait', async () => {
    await client.call('CLIENT', 'PAUSE', '500', 'ALL')
    await inTime(() => assert.rejects(open({ deadlineMs: 50 }).take('slow', rules), isUnavailable))
    assert.equal((await open({ deadlineMs: 20_000 }).check('slow', rules)).rules[0]!.used, 1)
  })

  it('ends each call by its deadline over a wire that is half a second long, and is right when it is short', async (t) => {
    const wire = await startWire({ host: '127.0.0.1', port: Number(new URL(service.url).port) })
    const far = new Redis(wire.port, { enableAutoPipelining: true })
    t.after(() => {
      far.disconnect()
      return wire.close()
    })
    const over = (options: RedisStoreOptions) =>
      createLimits({ store: redisStore(far, { deadlineMs: 100, ...options }) })
    await over({ deadlineMs: 20_000 }).take('far', rules)
    wire.delayMs = 500
    await inTime(() => assert.rejects(over({}).take('far', rules), isUnavailable))
    const refused = await inTime(() => over({ onUnavailable: 'refuse' }).reserve('far', rules, { id: 'n' }))
    assert.deepEqual([refused.allowed, refused.held], [false, false])
    const admitted = await inTime(() => over({ onUnavailable: 'admit' }).fire('far', 'm', rules))
    assert.deepEqual([admitted.allowed, admitted.held], [true, false])
    wire.delayMs = 0
    // Calls that had run out of time arrived all the same: one take, one booking, one release.
    const { rules: rows } = await over({ deadlineMs: 20_000 }).check('far', rules)
    assert.deepEqual([rows[0]!.used, rows[0]!.reserved], [3, 1])
  })

  it('answers every call in flight when Redis is killed, and finds the counted calls after a restart', async () => {
    const limits = patient()
    for (let call = 0; call < 3; call += 1) await limits.take('killed', rules, { id: `n${call}` })
    const { folder, url } = service
    process.kill(service.pid, 'SIGKILL')
    const calls = await inTime(() =>
      Promise.allSettled(Array.from({ length: 20 }, () => open().take('killed', rules))),
    )
    assert.ok(calls.every((call) => call.status === 'rejected' && isUnavailable(call.reason)))
    service = await restart(folder, Number(new URL(url).port))
    // The client sends again what had not been answered, so that all four places may be taken by now.
    const after = await patient().take('killed', rules)
    assert.ok(after.rules[0]!.used >= 3)
    assert.equal((await patient().check('killed', rules)).rules[0]!.remaining, 0)
  })

  async function restart(folder: string, port: number): Promise<Service> {
    // The old record still owns the folder; a new process on the same files and port is the same Redis again.
    for (let attempt = 0; ; attempt += 1) {
      try {
        return await start({ folder, port })
      } catch (error) {
        if (attempt > 20) throw error
        await wait(100)
      }
    }
  }

  it('goes on when the scripts are flushed, many calls at once', async () => {
    const limits = patient()
    await limits.take('flushed', rules)
    await client.script('FLUSH')
    const decisions = await Promise.all(Array.from({ length: 20 }, () => limits.take('flushed', rules)))
    assert.equal(decisions.filter(({ allowed }) => allowed).length, 3)
  })

  it('begins anew when everything is flushed, and is filled again by id', async () => {
    const limits = patient()
    const { at } = await limits.take('emptied', rules, { id: 'n1' })
    await client.flushall()
    assert.equal(await limits.has('emptied'), false)
    const entry = { id: 'n1', at, fired: true, streams: ['four'] }
    await limits.restore('emptied', [entry, entry])
    assert.equal((await limits.check('emptied', rules)).rules[0]!.used, 1)
  })

  it('lets Redis drop a subject when its last entry is over', async () => {
    const limits = open({ deadlineMs: 20_000, retentionMs: 1 })
    // Long enough for a busy machine to ask before its end.
    await limits.take('short', [limit('gap', '1/8s')])
    const ttl = await client.pttl('sluice:{short}')
    // An eighth longer than it must, so that not every call moves the end.
    assert.ok(ttl > 0 && ttl <= 9_001, `${ttl} ms to live`)
    await limits.take('long', [limit('l', '1/h')])
    assert.ok((await client.pttl('sluice:{long}')) > 3_000_000)
    const retentionMs = 31 * 86_400_000
    await open({ deadlineMs: 20_000, retentionMs }).take('month', [limit('l', '1/h')])
    assert.ok((await client.pttl('sluice:{month}')) > 30 * 86_400_000)
  })
})
