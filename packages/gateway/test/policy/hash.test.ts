import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fnv64, uniform32 } from '../../src/policy/hash.ts'

test('fnv64 gives the published values', () => {
  // from the reference code of the draft: test_fnv.c, 64-bit FNV-1a
  const published = {
    '': 'cbf29ce484222325',
    a: 'af63dc4c8601ec8c',
    b: 'af63df4c8601f1a5',
    foo: 'dcb27518fed9d577',
    foobar: '85944171f73967e8',
  }
  for (const [text, hash] of Object.entries(published)) assert.equal(fnv64(text), hash)
})

test('fnv64 agrees with a computation in big integers, beyond ASCII too', () => {
  const slow = (text: string): string => {
    let hash = 0xcbf29ce484222325n
    for (const byte of Buffer.from(text))
      hash = ((hash ^ BigInt(byte)) * 0x100000001b3n) & 0xffffffffffffffffn
    return hash.toString(16).padStart(16, '0')
  }
  for (const text of ['Überraschung', '通知', '🔔 ding', 'x'.repeat(1_000)])
    assert.equal(fnv64(text), slow(text))
})

test('uniform32 spreads texts that differ in their last character only', () => {
  const buckets = new Array<number>(16).fill(0)
  for (let index = 0; index < 16_000; index++) buckets[uniform32(`01JCQ8-${index}`) >>> 28]! += 1
  // 1,000 expected in each, standard deviation 31
  for (const count of buckets) assert.ok(Math.abs(count - 1_000) < 160, `bucket of ${count}`)
})
