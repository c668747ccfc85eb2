import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { test } from 'node:test'
import { keyedHash } from '../src/keyed-hash.ts'

test('keyed hashes are those of Node’s HMAC, for keys and texts of every length around a block', () => {
  for (const keyBytes of [0, 1, 32, 63, 64, 65, 200])
    for (const length of [0, 1, 55, 56, 63, 64, 65, 1_000]) {
      const key = Buffer.from(Array.from({ length: keyBytes }, (_, n) => (n * 37) % 256))
      const text = 'ü€a'.repeat(length).slice(0, length)
      const expected = createHmac('sha256', key).update(text).digest('hex')
      assert.equal(keyedHash(key)(text).toString('hex'), expected, `${keyBytes} and ${length}`)
    }
  assert.deepEqual(keyedHash('secret')('text'), createHmac('sha256', 'secret').update('text').digest())
})
