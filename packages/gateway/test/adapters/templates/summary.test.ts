import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { summary } from '../../../src/adapters/templates/summary.ts'

const seed = Number(process.env.SLUICE_SEED ?? 20_261_121)

for (const [value, line] of [
  ['a text', 'a text'],
  [42, '42'],
  [0, '0'],
  [null, ''],
  [undefined, ''],
  [{}, ''],
  [['a', 1], '["a",1]'],
  [{ title: 'A title', id: 7 }, 'A title'],
  [{ post: 'P', comment: 'C', n: 1, gone: null, no: false, empty: '' }, 'P · C · n: 1'],
  [{ post: { title: 'T', id: 1 }, tags: ['a'], place: { x: 1 } }, 'T · tags: ["a"] · place: {"x":1}'],
  [{ notificationId: '1', actor: 'ada', data: { post: 'P' } }, 'ada: P'],
  [{ notificationId: '1', actor: 'ada' }, 'ada'],
  [{ notificationId: '1', data: { post: 'P' } }, 'P'],
  [{ notificationId: '1', template: 'new-follower' }, 'new-follower'],
  [{ notificationId: '1' }, 'notification'],
  [
    { notificationId: '1', actor: 'ada', content: { subject: 'S', text: 'T' }, data: { post: 'P' } },
    'ada: S — T',
  ],
  [{ notificationId: '1', content: { title: 'T', text: 'T' } }, 'T'],
] as const) {
  test(`${JSON.stringify(value)} is “${line}”`, () => assert.equal(summary(value), line))
}

test('long values are truncated, and the cut is visible', () => {
  assert.equal(summary('x'.repeat(1_000)).length, 300)
  assert.ok(summary('x'.repeat(1_000)).endsWith('…'))
  const many = Object.fromEntries(Array.from({ length: 100 }, (_, index) => [`key${index}`, index]))
  assert.ok(summary(many).endsWith('key19: 19 · …'))
})

test(`whatever the data is, its summary is one bounded line (SLUICE_SEED=${seed})`, () => {
  fc.assert(
    fc.property(fc.jsonValue(), fc.string({ unit: 'binary' }), (value, text) => {
      for (const each of [
        value,
        { notificationId: '1', actor: text, data: { [text]: value } },
        { a: value, text },
      ]) {
        const line = summary(each)
        assert.ok(line.length <= 4_000)
        assert.doesNotMatch(line, /[\p{Cc}\u2028\u2029]/u)
      }
    }),
    { seed, numRuns: 2_000 },
  )
})
