/** Refusals of `sluice move` before anything is read; moves over PostgreSQL: store/postgres/move.test.ts. */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'node:test'
import { openDatabase, schemaVersions } from '../../src/store/sqlite/database.ts'
import { temporaryFolder } from '../config/folder.ts'
import { sluice } from './session.ts'

test('the refusal of an address shows no part of its password', async (t) => {
  const cwd = temporaryFolder(t)
  for (const address of [
    'postgres://me:canary@db.example.com/sluice?sslmode=perhaps',
    'postgres://me:can:canary@ry@db.example.com/sluice?sslmode=perhaps',
    'postgres://me:canary/canary@db.example.com:port/sluice',
    'postgres://me:canary%@db.example.com/sluice',
    'postgres://me@db.example.com/sluice?password=canary',
  ]) {
    const { code, out, err } = await sluice(['move', 'sqlite:./a.db', address], { cwd })
    assert.equal(code, 2)
    assert.match(err, /"postgres:\/\/me@db\.example\.com/)
    assert.ok(!`${out}${err}`.includes('can'), err)
  }
})

test('a file of a newer version is refused with the way out', async (t) => {
  const cwd = temporaryFolder(t)
  const path = join(cwd, 'a.db')
  const { db, unlock } = openDatabase({ path })
  const { known } = schemaVersions(db)
  db.close()
  unlock()
  const newer = new DatabaseSync(path)
  newer.exec(`PRAGMA user_version = ${known + 1}`)
  newer.close()
  const { code, err } = await sluice(['move', `sqlite:${path}`, 'postgres://me@127.0.0.1:1/sluice'], { cwd })
  assert.equal(code, 2)
  assert.match(err, /is of another version \(schema \d+; this one has \d+\)\. Use that version\./)
})
