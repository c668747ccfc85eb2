/** Drills break no invariant without the mistake for which they are made. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { testSeed } from '../harness.ts'
import { drilledAlone, drillsOfOne } from './drills-of-one.ts'
import { runFleet } from './fleet.ts'
import { drills } from './fleet-drills.ts'
import { runGateways } from './gateways.ts'

for (const drill of drillsOfOne)
  test(`the drill ${drill} of one gateway breaks no invariant`, async () => {
    const { violations, figures } = await runFleet(testSeed, { settings: drilledAlone(drill, testSeed) })
    assert.deepEqual(violations, [], `npm run check:fleet -- --drill ${drill} --seed ${testSeed}`)
    assert.ok(figures.calls > 10, `${figures.calls} calls were made`)
  })

for (const drill of drills)
  test(`the drill ${drill} of two gateways breaks no invariant`, async () => {
    const { violations, figures } = await runGateways(testSeed, { gateways: 2, drill })
    assert.deepEqual(
      violations,
      [],
      `npm run check:fleet -- --gateways 2 --drill ${drill} --seed ${testSeed}`,
    )
    assert.ok(figures.calls > 10, `${figures.calls} calls were made`)
  })
