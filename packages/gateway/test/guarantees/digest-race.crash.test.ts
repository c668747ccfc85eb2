import assert from 'node:assert/strict'
import { test } from 'node:test'
import { testSeed } from '../harness.ts'
import { race } from './digest-race.ts'

test('every digest item ends in time under load and through kills', async (t) => {
  const result = await race({ items: 1_500, kills: 1, clients: 4, seed: testSeed })
  t.diagnostic(JSON.stringify(result))
  assert.ok(result.onRecord >= result.acknowledged && result.digests > 0)
  assert.deepEqual(
    { missing: result.missing, notFinal: result.notFinal, late: result.late },
    { missing: 0, notFinal: 0, late: 0 },
  )
})
