import assert from 'node:assert/strict'
import { it } from 'node:test'
import { fullestWindow } from '../../src/sandbox/oracle.ts'

it('counts two calls exactly a window apart as being in two windows', () => {
  assert.deepEqual(fullestWindow('a', [1_000, 0, 999, 1_500], 1_000), {
    account: 'a',
    calls: 4,
    most: 3,
    from: 999,
  })
  assert.deepEqual(fullestWindow('a', [], 1_000), { account: 'a', calls: 0, most: 0, from: null })
})
