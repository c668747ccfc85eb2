/** A gateway that keeps the limits of its Redis, on real servers that answer and refuse. */
import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { needs } from '../../../../scripts/services/needs.ts'
import { startRedis } from '../../../../scripts/services/redis.ts'
import { createSystemClock } from '../../src/adapters/clock.ts'
import { createMemoryRegistrations } from '../../src/adapters/state/redis/memory-registrations.ts'
import { openKeptRedis } from '../../src/composition/kept-limits.ts'
import type { RuntimeContext } from '../../src/composition/runtime-context.ts'
import { readStateAddress } from '../../src/config/state-address.ts'

async function open(t: TestContext, url: string) {
  const context = {
    clock: createSystemClock(),
    log: { info() {}, warn() {} },
    policy: { part: { shared: { categories: ['security'], areListed: true } } },
    errorsOf: () => () => {},
  }
  const { redis, keeper } = await openKeptRedis(
    readStateAddress(url, () => ''),
    context as unknown as RuntimeContext,
    createMemoryRegistrations(),
  )
  t.after(async () => {
    await keeper!.stop()
    redis.close()
  })
  return keeper!
}

async function until(what: string, isSo: () => boolean): Promise<void> {
  for (const endsAt = performance.now() + 15_000; !isSo(); await sleep(20))
    assert.ok(performance.now() < endsAt, what)
}

describe('the limits of a gateway', needs('redis'), () => {
  test('are kept as long as its Redis has no memory left for what it is told', async (t) => {
    const service = await startRedis({ args: ['--maxmemory', '4mb'] })
    const admin = new Redis(service.url)
    t.after(async () => {
      admin.disconnect()
      await service.stop()
    })
    const keeper = await open(t, service.url)
    await until('it is served', () => !keeper.isAway() && keeper.keeper() === undefined)
    for (let n = 0; ; n += 1)
      if ((await admin.set(`filler${n}`, 'x'.repeat(10_000)).catch(() => 'full')) === 'full') break
    await until('it keeps the limits', () => keeper.keeper() === 'this process')
    const sinceMs = performance.now()
    while (performance.now() - sinceMs < 6_000) {
      assert.equal(keeper.keeper(), 'this process', `after ${performance.now() - sinceMs} ms`)
      await sleep(50)
    }
    await admin.config('SET', 'maxmemory', '0')
    await until('Redis has the limits back', () => !keeper.isAway() && keeper.keeper() === undefined)
  })
})
