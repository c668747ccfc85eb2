/**
 * The same random calls to the store in memory and to an engine, and the same answers: PostgreSQL as the record of a fleet,
 * and SQLite as that of one process. `npm run check:fleet -- --only differentials` runs many such sequences.
 */
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { isAtHand, needs } from '../../../../../scripts/services/needs.ts'
import { testSeed } from '../../harness.ts'
import { dropSchemas } from '../postgres/database.ts'
import { postgresLane, sqliteLane } from './lanes.ts'
import { compareStores } from './sequence.ts'

/** Calls in `npm test`; another number comes from the environment. */
const steps = Number(process.env.SLUICE_STEPS ?? 400)

describe('the stores in memory and on an engine', () => {
  after(() => (isAtHand('postgres') ? dropSchemas() : undefined))

  for (const [engine, lane, needed] of [
    ['PostgreSQL', postgresLane, needs('postgres')],
    ['SQLite', sqliteLane, {}],
  ] as const)
    test(`give the same answers to the same ${steps} calls: ${engine}`, needed, async (t) => {
      t.diagnostic(`SLUICE_SEED=${testSeed}`)
      const { open } = lane('differential')
      const stores = await open()
      t.after(() => stores.engine.close())
      const { applied, refused, onRecord } = await compareStores({ seed: testSeed, steps, ...stores })
      t.diagnostic(`${applied} changes applied, ${refused} refused, ${onRecord} notifications on record`)
      assert.ok(refused > steps / 100 && applied > steps / 3)
    })
})
