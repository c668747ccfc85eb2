/**
 * Several gateways at once in the fleet simulator: losses of the limits and of the record, pauses until a gateway is
 * declared dead, kills, delays and lost answers. `npm run check:fleet -- --gateways 4 --seeds 100` runs more.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { needs } from '../../../../scripts/services/needs.ts'
import { testSeed } from '../harness.ts'
import { runGateways } from './gateways.ts'
import { startSimRedis } from './sim-redis.ts'
import { closeServer } from './sim-server.ts'

/** A run takes a second of a core: some thousand timers and calls of Redis. */
const seeds = 5
test(
  `${seeds} seeds of two gateways, or of four, break no invariant, and give the same trace again`,
  needs('redis'),
  async (t) => {
    const first = (testSeed - 1) * seeds + 1
    const redis = await startSimRedis()
    t.after(async () => {
      closeServer()
      await redis.stop()
    })
    t.diagnostic(`seeds ${first} to ${first + seeds - 1}`)
    let trace: readonly string[] = []
    for (let seed = first; seed < first + seeds; seed += 1) {
      const gateways = seed % 4 === 0 ? 4 : 2
      const { violations, lines } = await runGateways(seed, { gateways, redisUrl: redis.url })
      assert.deepEqual(violations, [], `npm run check:fleet -- --gateways ${gateways} --seed ${seed}`)
      if (seed === first) trace = lines
    }
    const again = await runGateways(first, { gateways: first % 4 === 0 ? 4 : 2, redisUrl: redis.url })
    assert.deepEqual(again.lines, trace)
  },
)
