import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { temporaryFolder } from '../config/folder.ts'
import { sluice } from './session.ts'

/** Takes some milliseconds, so that the test fails soon where the report is checked too late. */
const scenario = `name: few
seed: 1
start: 2026-11-21T06:00:00Z
duration: 1h
recipients: { count: 2 }
traffic:
  - { times: 2, over: 30min, to: everyone, channel: push, category: activity, actor: a }
`

test('a report that cannot be written is refused before the simulation starts', async (t) => {
  const cwd = temporaryFolder(t, { 'few.yaml': scenario })
  const simulate = (report: string) => sluice(['simulate', 'few.yaml', '--report', report], { cwd })
  const { code, out, err } = await simulate('missing/out.html')
  // After a simulation its figures would stand here, or the error of the write without a word about the report.
  assert.deepEqual([code, out], [2, ''])
  assert.match(err, /the report cannot be written to "missing\/out\.html" \(ENOENT\)/)
  assert.ok(!existsSync(join(cwd, 'missing')))
  const written = await simulate('out.html')
  assert.equal(written.code, 0, written.err)
  assert.ok(existsSync(join(cwd, 'out.html')))
})
