/** Requests in progress in Redis: the suite of the port, and what becomes of marks of several processes. */
import assert from 'node:assert/strict'
import process from 'node:process'
import { after, describe, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { needs } from '../../../../../../scripts/services/needs.ts'
import { createRedisOnce } from '../../../../src/adapters/state/redis/redis-once.ts'
import { exerciseOnce } from '../../../../src/conformance/once.ts'
import type { Once, OnceKey } from '../../../../src/ports/fleet.ts'
import { startProxy } from '../../../store/postgres/proxy.ts'
import { engines, newPrefix, openRedis } from './open.ts'

const request: OnceKey = { tenant: 'acme', module: 'shop', method: 'POST', path: '/notifications', key: 'k1' }

/** Begins again and again, until another process has ended the request or its mark has lapsed; 30 s at most. */
async function untilNew(once: Once): Promise<number> {
  const sinceMs = performance.now()
  while ((await once.begin(request, 'body')) !== 'new') {
    assert.ok(performance.now() - sinceMs < 30_000, 'the request is still in progress')
    await sleep(5)
  }
  return performance.now() - sinceMs
}

for (const engine of engines)
  describe(`on ${engine}`, needs(engine), () => {
    let members = 0
    const open = (prefix: string, leaseMs?: number) => {
      members += 1
      const once = createRedisOnce({ redis: openRedis(engine, { prefix }), member: `m${members}`, leaseMs })
      after(() => once.close())
      return once
    }

    exerciseOnce('requests in progress in Redis', () => open(newPrefix()))

    it('begins a request in one of several processes, and in another one after its end', async () => {
      const prefix = newPrefix()
      const fleet = [open(prefix), open(prefix), open(prefix)]
      const begun = await Promise.all(
        Array.from({ length: 60 }, (_, index) => fleet[index % 3]!.begin(request, 'body')),
      )
      assert.equal(begun.filter((each) => each === 'new').length, 1)
      assert.equal(begun.filter((each) => each === 'busy').length, 59)
      const owner = fleet[begun.indexOf('new') % 3]!
      const other = fleet[(begun.indexOf('new') + 1) % 3]!
      assert.equal(await other.begin(request, 'another body'), 'mismatch')
      await owner.end(request)
      await untilNew(other)
    })

    it('ends a request in one process only: an end that comes late takes no mark of another', async () => {
      const prefix = newPrefix()
      const [slow, quick, third] = [open(prefix, 300), open(prefix), open(prefix)]
      assert.equal(await slow.begin(request, 'body'), 'new')
      // A process that is stopped renews no lease.
      slow.close()
      await untilNew(quick)
      await slow.end(request)
      await sleep(50)
      assert.equal(await third.begin(request, 'body'), 'busy')
    })

    it('keeps the mark of a request that takes longer than a lease, and frees that of a dead process', async () => {
      const prefix = newPrefix()
      const leaseMs = 1_500
      const [alive, other] = [open(prefix, leaseMs), open(prefix, leaseMs)]
      assert.equal(await alive.begin(request, 'body'), 'new')
      await sleep(2 * leaseMs)
      assert.equal(await other.begin(request, 'body'), 'busy')
      alive.close()
      await untilNew(other)
    })
  })

describe('on a Redis that is lost for a while', needs('redis'), () => {
  /** A process whose Redis can be lost, and another one whose is there. */
  async function openBoth() {
    const prefix = newPrefix()
    const proxy = await startProxy(process.env.SLUICE_TEST_REDIS!)
    after(() => proxy.close())
    const open = (member: string, options: object) => {
      const once = createRedisOnce({ redis: openRedis('redis', { prefix, ...options }), member })
      after(() => once.close())
      return once
    }
    const [once, other] = [open('m1', { url: proxy.url, deadlineMs: 200 }), open('m2', {})]
    await once.begin({ ...request, key: 'connected' }, 'body')
    return { proxy, once, other }
  }

  it('begins nothing for a process that has given up', async () => {
    const { proxy, once, other } = await openBoth()
    proxy.freeze()
    assert.equal(await once.begin(request, 'body'), 'new')
    await sleep(100)
    proxy.thaw()
    // It comes to Redis before this one.
    assert.equal(await once.begin({ ...request, key: 'behind' }, 'body'), 'new')
    assert.equal(await other.begin(request, 'another body'), 'new')
  })

  it('ends a request later whose end was lost', async () => {
    const { proxy, once, other } = await openBoth()
    assert.equal(await once.begin(request, 'body'), 'new')
    proxy.freeze()
    await once.end(request)
    await sleep(300)
    proxy.cutAll()
    proxy.thaw()
    const tookMs = await untilNew(other)
    assert.ok(tookMs < 10_000, `it was in progress for ${Math.round(tookMs)} ms`)
  })
})

it('begins a request without Redis, once in each process', async () => {
  const redis = openRedis('redis', { url: 'redis://127.0.0.1:1', deadlineMs: 50 })
  const failures: unknown[] = []
  const once = createRedisOnce({ redis, member: 'm', onError: (error) => failures.push(error) })
  assert.equal(await once.begin(request, 'body'), 'new')
  assert.equal(await once.begin(request, 'body'), 'busy')
  await once.end(request)
  assert.equal(await once.begin(request, 'body'), 'new')
  assert.ok(failures.length > 0)
  once.close()
  redis.close()
})
