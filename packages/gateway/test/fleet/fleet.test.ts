/**
 * The gateway in the fleet simulator: kills at any await, delays and failures at every port, pauses, steps of the wall
 * clock. Here 60 seeds; `npm run check:fleet -- --seeds 1000` runs more, on all cores. Several
 * gateways at once: gateways.test.ts.
 */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { testSeed } from '../harness.ts'
import { runFleet } from './fleet.ts'
import { sabotages } from './sabotages.ts'

const seeds = 60
test(`${seeds} seeds of kills, delays and failures at every port break no invariant`, async (t) => {
  const first = (testSeed - 1) * seeds + 1
  t.diagnostic(`seeds ${first} to ${first + seeds - 1}`)
  let calls = 0
  for (let seed = first; seed < first + seeds; seed += 1) {
    const { violations, figures } = await runFleet(seed)
    assert.deepEqual(violations, [], `npm run check:fleet -- --seed ${seed}`)
    calls += figures.calls
  }
  assert.ok(calls > seeds, `${calls} calls were made`)
})

test('the same seed gives the same trace', async () => {
  const [one, other] = [await runFleet(testSeed), await runFleet(testSeed)]
  assert.deepEqual(one.lines, other.lines)
  assert.equal(one.traceHash, other.traceHash)
  assert.ok(one.lines.length > 50, 'it shows what has happened')
})

test('each sabotage fits the line of the source that it replaces', () => {
  for (const { name, file, from, to } of sabotages) {
    const source = readFileSync(new URL(`../../src/${file}`, import.meta.url), 'utf8')
    assert.equal(source.split(from).length, 2, `${name}: ${file} has the line once`)
    assert.notEqual(from, to, name)
  }
})
