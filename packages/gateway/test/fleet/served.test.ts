/**
 * One gateway in the fleet simulator whose limits count in a server: it loses them, restarts, and fails over to a replica that
 * lacks the last writes, between kills and failures at every port. `npm run check:fleet -- --served --seeds 1000` runs more.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { testSeed } from '../harness.ts'
import { runFleet } from './fleet.ts'
import { createScriptServer } from './script-servers.ts'

const seeds = 2
test(`${seeds} seeds of a gateway whose limits are lost with their server break no invariant`, async (t) => {
  // The seed 5 has somebody who waits in a subject when the last one moves up, and nobody behind.
  const first = (testSeed - 1) * seeds + 4
  t.diagnostic(`seeds ${first} to ${first + seeds - 1}`)
  for (let seed = first; seed < first + seeds; seed += 1) {
    const { violations, figures } = await runFleet(seed, { limitServer: createScriptServer() })
    assert.deepEqual(violations, [], `npm run check:fleet -- --served --seed ${seed}`)
    assert.ok(figures.calls > 0)
  }
})
