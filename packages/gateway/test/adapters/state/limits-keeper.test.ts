import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { createLimitsKeeper } from '../../../src/adapters/state/limits-keeper.ts'
import type { RedisConnections } from '../../../src/adapters/state/redis/redis-state.ts'

test('a wall clock that is set an hour on lets no gateway pledge before its server was away for 2.5 s', async (t) => {
  const awaySince = performance.now()
  let aheadMs = 0
  const pledgedAt: number[] = []
  const redis: RedisConnections = {
    deadlineMs: 100,
    ask: async () => {
      throw new Error('away')
    },
    expect: () => false,
    renew() {},
    close() {},
  }
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
