/**
 * The gateway in the fleet simulator: kills at any await, delays and failures at every port, pauses, steps of the wall
 * clock. `npm run check:fleet -- --seeds 1000` runs more, on all cores. Several gateways at once: two-gateways.test.ts
 * and four-gateways.test.ts.
 */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { sabotages } from './sabotages.ts'
import { exerciseRepetition, exerciseSeeds } from './seeds.ts'

exerciseSeeds(1, 1, 90)
exerciseRepetition(1)

test('each sabotage fits the line of the source that it replaces', () => {
  for (const { name, file, from, to } of sabotages) {
    const source = readFileSync(new URL(`../../src/${file}`, import.meta.url), 'utf8')
    assert.equal(source.split(from).length, 2, `${name}: ${file} has the line once`)
    assert.notEqual(from, to, name)
  }
})
