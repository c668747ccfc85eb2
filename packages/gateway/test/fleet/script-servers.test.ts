/**
 * The scripts of the limits answer the same in the process itself as on a real Redis: through whole runs of the simulator, and
 * to random operations on the limits of recipients, on throttle queues and on rooms.
 */
import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { needs } from '../../../../scripts/services/needs.ts'
import type { RedisState } from '../../src/adapters/state/redis/redis-state.ts'
import { comparisons } from '../adapters/state/redis/compared.ts'
import { testSeed } from '../harness.ts'
import { runGateways } from './gateways.ts'
import { type SimRedis, startSimRedis } from './sim-redis.ts'
import { openTwinScripts, type TwinScripts } from './twin-scripts.ts'

describe('scripts in the process itself and on a real Redis', needs('redis'), () => {
  let redis: SimRedis
  let twins: TwinScripts
  before(async () => {
    redis = await startSimRedis()
    twins = await openTwinScripts(redis.url)
  })
  after(async () => {
    twins.close()
    await redis.stop()
  })

  it('give the same answers, keys and trace of a whole run', async () => {
    const seed = testSeed + 7
    const { lines } = await runGateways(seed, { gateways: 4, scripts: twins })
    assert.ok(twins.asked() > 500, 'the run asked the scripts')
    assert.deepEqual((await runGateways(seed, { gateways: 4 })).lines, lines)
  })

  for (const state of ['limits', 'throttle', 'room'] as const)
    it(`give the same answers and keys to random operations: ${state}`, async () => {
      const prefix = `${state}:`
      let keys = 0
      const compared = await comparisons[state]({
        seed: testSeed,
        operations: 250,
        prefix,
        open: ({ prefix: own, clock }) => stateOf(twins, own!, () => clock!.now()),
        async remove(...lost) {
          keys += await twins.compareKeys('')
          await Promise.all(lost.map((key) => twins.remove('', key)))
        },
      })
      assert.ok(compared >= 250 && keys > 0, `${compared} operations, ${keys} keys`)
    })
})

/** A state whose scripts run on both servers, at the instants of a clock. */
function stateOf(scripts: TwinScripts, prefix: string, now: () => number): RedisState {
  return {
    deadlineMs: 20_000,
    ask(script, { subject, name, others = [] }, args) {
      const keys = [name, ...others].map((each) => `${prefix}{${subject.replaceAll('}', ')')}}${each}`)
      return scripts.run('', script, keys, ['1', String(now()), '0', '0', '0', ...args])
    },
    expect: () => false,
    close() {},
  }
}
