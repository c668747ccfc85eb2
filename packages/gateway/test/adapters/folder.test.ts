import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { makeFolder } from '../../src/adapters/folder.ts'

const root = mkdtempSync(join(tmpdir(), 'sluice-folder-'))
after(() => rmSync(root, { recursive: true }))

test('missing levels of a folder are created, and existing ones stay', () => {
  const path = join(root, 'a/b/c')
  makeFolder(path)
  makeFolder(path)
  assert.ok(statSync(path).isDirectory())
})

test('a file in place of a folder is an error', () => {
  writeFileSync(join(root, 'file'), 'not a folder')
  assert.throws(() => makeFolder(join(root, 'file')), { code: 'EEXIST' })
  assert.throws(() => makeFolder(join(root, 'file/below')), { code: 'EEXIST' })
})

test('a folder that the system refuses to create is an error at once', {
  skip: process.platform !== 'linux',
}, () => {
  assert.throws(() => makeFolder('/proc/sluice/data'), { code: 'ENOENT' })
})
