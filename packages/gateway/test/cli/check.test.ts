/** `sluice check` as a program reads it: what is wrong, each with a message. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { temporaryFolder } from '../config/folder.ts'
import { sluice } from './session.ts'

test('with --json a fault of a file has its place, and a server that cannot be used its reason', async (t) => {
  const cwd = temporaryFolder(t, { 'sluice.yaml': 'http: { prot: 8080 }\n' })
  const misspelt = await sluice(['check', '--json'], { cwd })
  assert.equal(misspelt.code, 2)
  const [fault] = JSON.parse(misspelt.out).errors
  assert.deepEqual([fault.path, fault.line], ['http.prot', 1])
  assert.match(fault.message, /did you mean "port"/)
  const away = await sluice(['check', '--json'], {
    cwd: temporaryFolder(t, {}),
    env: { SLUICE_STORE: 'postgres://nobody@127.0.0.1:1/none' },
  })
  assert.equal(away.code, 2)
  const { valid, errors } = JSON.parse(away.out)
  assert.equal(valid, false)
  assert.equal(errors.length, 1)
  assert.equal(errors[0].path, '')
  assert.match(errors[0].message, /^PostgreSQL cannot be reached/)
})
