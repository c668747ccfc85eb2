/**
 * Several gateways at once in the fleet simulator: losses of the limits and of the record, pauses until a gateway is
 * declared dead, kills, delays and lost answers. `npm run check:fleet -- --gateways 4 --seeds 100` runs more.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { testSeed } from '../harness.ts'
import { runGateways } from './gateways.ts'

const seeds = 10
test(`${seeds} seeds of two gateways, or of four, break no invariant, and give the same trace again`, async (t) => {
  const first = (testSeed - 1) * seeds + 1
  t.diagnostic(`seeds ${first} to ${first + seeds - 1}`)
  const gatewaysOf = (seed: number): number => (seed % 4 === 0 ? 4 : 2)
  let trace: readonly string[] = []
  for (let seed = first; seed < first + seeds; seed += 1) {
    const gateways = gatewaysOf(seed)
    const { violations, lines } = await runGateways(seed, { gateways })
    assert.deepEqual(violations, [], `npm run check:fleet -- --gateways ${gateways} --seed ${seed}`)
    if (seed === first) trace = lines
  }
  const again = await runGateways(first, { gateways: gatewaysOf(first) })
  assert.deepEqual(again.lines, trace)
})
