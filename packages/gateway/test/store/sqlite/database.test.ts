/** The path of a store is held against what lies there before anything is done with it. */
import assert from 'node:assert/strict'
import { chmodSync, existsSync, mkdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { sluice } from '../../cli/session.ts'
import { temporaryFolder } from '../../config/folder.ts'

test('the path of a folder is refused with the way out, and the folder keeps its rights', async (t) => {
  const cwd = temporaryFolder(t, {})
  const shared = join(cwd, 'shared')
  mkdirSync(shared)
  chmodSync(shared, 0o1777)
  const env = { SLUICE_STORE: 'sqlite:./shared', SLUICE_HTTP_PORT: '0' }
  for (const command of [
    ['serve'],
    ['check'],
    ['export'],
    ['backup', './copy.db'],
    ['move', 'sqlite:./shared', 'postgres://nobody@127.0.0.1:1/none'],
  ]) {
    const { code, err } = await sluice(command, { cwd, env })
    assert.equal(code, 2, `${command[0]}: ${err}`)
    assert.match(err, /shared is a folder/, command[0])
  }
  assert.equal(statSync(shared).mode & 0o7777, 0o1777)
  assert.equal(existsSync(`${shared}-lock`), false)
})
