import assert from 'node:assert/strict'
import { chmodSync, mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { keptKey } from '../../src/adapters/key-file.ts'

const root = mkdtempSync(join(tmpdir(), 'sluice-key-'))
after(() => rmSync(root, { recursive: true }))

test('a key file is created once, readable by its owner only, and read again', () => {
  const file = join(root, 'data', 'unsubscribe.key')
  const first = keptKey(file)
  assert.deepEqual(keptKey(file), first)
  assert.equal(statSync(file).mode & 0o777, 0o600)
  assert.equal(readFileSync(file, 'utf8'), first.toString())
  assert.ok(first.length >= 32)
})

test('a key file that others could read is restricted to its owner, and so is its folder', () => {
  const file = join(root, 'open', 'unsubscribe.key')
  const first = keptKey(file)
  assert.equal(statSync(join(root, 'open')).mode & 0o777, 0o700)
  chmodSync(file, 0o644)
  assert.deepEqual(keptKey(file), first)
  assert.equal(statSync(file).mode & 0o777, 0o600)
})

test('without a file each key is a new one', () => {
  assert.notDeepEqual(keptKey(undefined), keptKey(undefined))
})

test('a file that can neither be read nor written is an error with its path', () => {
  assert.throws(() => keptKey(root), {
    code: 'INVALID_CONFIG',
    message: new RegExp(`The key in ${root} can neither be read nor written: EISDIR`),
  })
})
