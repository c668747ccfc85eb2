/**
 * The same random calls of several processes to the record in memory and to PostgreSQL, and the same answers.
 * `npm run check:fleet -- --only differentials` runs many such sequences.
 */
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { needs } from '../../../../../scripts/services/needs.ts'
import { testSeed } from '../../harness.ts'
import { dropSchemas } from '../postgres/database.ts'
import { fleetLane } from './fleet-lane.ts'
import { compareFleets } from './fleet-sequence.ts'

/** Calls in `npm test`; another number comes from the environment. */
const steps = Number(process.env.SLUICE_STEPS ?? 400)

describe('a record of several processes in memory and on PostgreSQL', needs('postgres'), () => {
  after(dropSchemas)

  test(`gives the same answers to the same ${steps} calls`, async (t) => {
    t.diagnostic(`SLUICE_SEED=${testSeed}`)
    const pair = await fleetLane('fleets').open()
    t.after(pair.close)
    const counts = await compareFleets({ seed: testSeed, steps, pair })
    t.diagnostic(JSON.stringify(counts))
    assert.ok(counts.refused > steps / 100 && counts.applied > steps / 20)
  })
})
