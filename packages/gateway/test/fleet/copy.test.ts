import assert from 'node:assert/strict'
import { test } from 'node:test'
import { copyOf } from './copy.ts'

test('a copy of an answer is that of structuredClone, and shares no object with the answer', () => {
  const answer = {
    rows: [{ id: 'a', at: 1, note: undefined, more: { of: [null, true] } }],
    byId: new Map([['a', { at: 1 }]]),
    names: new Set(['a']),
    at: new Date(5),
  }
  const copy = copyOf(answer)
  assert.deepEqual(copy, structuredClone(answer))
  assert.notEqual(copy.rows[0], answer.rows[0])
  assert.notEqual(copy.rows[0]!.more.of, answer.rows[0]!.more.of)
  assert.notEqual(copy.byId.get('a'), answer.byId.get('a'))
  assert.equal(copyOf(undefined), undefined)
})

test('what no engine could answer is refused', () => {
  assert.throws(() => copyOf({ work: () => 1 }), { name: 'DataCloneError' })
})
