import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { createLimitsKeeper } from '../../../src/adapters/state/limits-keeper.ts'
import { createMemoryRegistrations } from '../../../src/adapters/state/redis/memory-registrations.ts'
import type { RedisConnections } from '../../../src/adapters/state/redis/redis-state.ts'
import type { Registrations } from '../../../src/ports/limiter.ts'

/** Connections to a server that nobody but the keeper asks. */
const redis: RedisConnections = {
  deadlineMs: 100,
  ask: async () => {
    throw new Error('away')
  },
  expect: () => false,
  renew() {},
  close() {},
}

test('a wall clock that is set an hour on lets no gateway pledge before its server was away for 2.5 s', async (t) => {
  const awaySince = performance.now()
  let aheadMs = 0
  const pledgedAt: number[] = []
  const keeper = await createLimitsKeeper({
    registrations: { register: async () => 1 },
    keeping: {
      async standIn() {
        pledgedAt.push(performance.now() - awaySince)
        return { number: undefined, keeper: undefined, isReachable: false }
      },
      async stepDown() {},
      handOver: async () => [],
    },
    open: async () => ({ redis, awaySince: () => awaySince }),
    shared: () => ({ categories: ['security'], areListed: true }),
    clock: { now: () => Date.now() + aheadMs, monotonic: () => performance.now() },
    ping: async () => {},
    onError(_what, error) {
      throw error
    },
  })
  t.after(() => keeper.stop())
  aheadMs = 3_600_000
  while (pledgedAt.length === 0 && performance.now() - awaySince < 10_000) await sleep(50)
  assert.ok(pledgedAt[0]! >= 2_500, `pledged after ${pledgedAt[0]} ms`)
})

test('a gateway that nobody asks gives the limits back to a server that has returned, once', async (t) => {
  const { keeping, register } = createMemoryRegistrations()
  const place = { keyspace: 'keys', masters: ['redis:1'] }
  const life = { node: 'redis:1', runId: 'r', replicationId: 'p', place }
  let registrations: Registrations | undefined
  let [isBack, begun] = [false, 0]
  let awaySince: number | undefined = performance.now() - 3_000
  const keeper = await createLimitsKeeper({
    registrations: { register },
    keeping,
    open: async (given) => {
      registrations = given
      return { redis, awaySince: () => awaySince }
    },
    shared: () => ({ categories: ['security'], areListed: true }),
    clock: { now: Date.now, monotonic: () => performance.now() },
    // An answer over the network comes later than the look that asks.
    async ping() {
      if (!isBack) throw new Error('away')
      await sleep(50)
      await registrations!.register(life)
      awaySince = undefined
    },
    onError(_what, error) {
      throw error
    },
  })
  t.after(() => keeper.stop())
  keeper.listen({
    onKeeper(by) {
      if (by === 'this process') begun += 1
    },
  })
  const until = async (isSo: () => boolean): Promise<void> => {
    for (const endsAt = performance.now() + 15_000; !isSo() && performance.now() < endsAt; ) await sleep(20)
  }
  await until(() => keeper.keeper() === 'this process')
  isBack = true
  await until(() => !keeper.isAway())
  assert.deepEqual([begun, keeper.isAway(), keeper.keeper()], [1, false, undefined])
})
