/** The path of a store is held against what lies there before anything is done with it. */
import assert from 'node:assert/strict'
import { chmodSync, existsSync, mkdirSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { openDatabase } from '../../../src/store/sqlite/database.ts'
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

test('a move from a file that a gateway uses, with --dry-run too, says to stop that gateway', async (t) => {
  const cwd = temporaryFolder(t, {})
  const { db, unlock } = openDatabase({ path: join(cwd, 'sluice.db') })
  t.after(() => {
    db.close()
    unlock()
  })
  const move = ['move', 'sqlite:./sluice.db', 'postgres://nobody@127.0.0.1:1/none']
  for (const args of [move, [...move, '--dry-run']]) {
    const { code, err } = await sluice(args, { cwd })
    assert.equal(code, 2)
    assert.match(err, /is in use by another gateway\. Stop it first \(SIGTERM\)/)
  }
})
