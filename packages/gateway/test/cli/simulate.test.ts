import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { temporaryFolder } from '../config/folder.ts'
import { sluice } from './session.ts'

test('a report that cannot be written is told before the simulation begins', async (t) => {
  const cwd = temporaryFolder(t, {})
  const startedAt = performance.now()
  const { code, out, err } = await sluice(['simulate', 'war-story', '--report', 'missing/out.html'], { cwd })
  assert.deepEqual([code, out], [2, ''])
  assert.match(err, /the report cannot be written to "missing\/out\.html" \(ENOENT\)/)
  assert.ok(performance.now() - startedAt < 5_000, 'the simulation itself takes far longer')
  assert.ok(!existsSync(join(cwd, 'missing')))
})
