/** Registers seeds of the simulator with node:test; they are spread over files, which run side by side. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { testSeed } from '../harness.ts'
import { type RunResult, runFleet } from './fleet.ts'
import { runGateways } from './gateways.ts'

/** Seeds of `npm test`, by the number of gateways: a first seed of the tests moves on by as many. */
const seeds: Readonly<Record<number, number>> = { 1: 180, 2: 10, 4: 10 }

function run(seed: number, gateways: number): Promise<RunResult> {
  return gateways === 1 ? runFleet(seed) : runGateways(seed, { gateways })
}

/**
 * Registers seeds in which no invariant may be broken.
 *
 * @param from - the first of those that `npm test` runs of so many gateways, from 1 on
 */
export function exerciseSeeds(gateways: number, from: number, count: number): void {
  const title = gateways === 1 ? 'one gateway' : `${gateways} gateways`
  test(`${count} seeds of ${title}: kills, delays and failures at every port break no invariant`, async (t) => {
    const first = (testSeed - 1) * seeds[gateways]! + from
    t.diagnostic(`seeds ${first} to ${first + count - 1}`)
    let calls = 0
    for (let seed = first; seed < first + count; seed += 1) {
      const { violations, figures } = await run(seed, gateways)
      assert.deepEqual(violations, [], `npm run check:fleet -- --gateways ${gateways} --seed ${seed}`)
      calls += figures.calls
    }
    assert.ok(calls > count, `${calls} calls were made`)
  })
}

/** Registers that a seed gives its trace again. */
export function exerciseRepetition(gateways: number): void {
  test(`the same seed gives the same trace: ${gateways} at once`, async () => {
    const [one, other] = [await run(testSeed, gateways), await run(testSeed, gateways)]
    assert.deepEqual(one.lines, other.lines)
    assert.equal(one.traceHash, other.traceHash)
    assert.ok(one.lines.length > 50, 'it shows what has happened')
  })
}
