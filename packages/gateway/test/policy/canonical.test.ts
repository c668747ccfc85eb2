import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { JsonValue } from '../../src/model.ts'
import { canonical } from '../../src/policy/canonical.ts'
import { seed } from './policies.ts'

test('the order of keys does not matter, at any depth', () => {
  assert.equal(
    canonical({ b: 1, a: { d: [1, { y: 1, x: 2 }], c: 2 } }),
    '{"a":{"c":2,"d":[1,{"x":2,"y":1}]},"b":1}',
  )
})

test('nested data, types and the order of lists do matter', () => {
  const texts = [
    { a: 1 },
    { a: '1' },
    { a: [1, 2] },
    { a: [2, 1] },
    { a: null },
    {},
    [],
    { a: { b: 1 } },
    { 'a.b': 1 },
  ].map(canonical)
  assert.equal(new Set(texts).size, texts.length)
})

test('the key __proto__ is an ordinary key', () => {
  const one = JSON.parse('{"__proto__":{"x":1}}') as JsonValue
  const other = JSON.parse('{"__proto__":{"x":2}}') as JsonValue
  assert.equal(canonical(one), '{"__proto__":{"x":1}}')
  assert.notEqual(canonical(one), canonical(other))
})

test('an undefined field does not exist', () => {
  assert.equal(canonical({ b: undefined, a: 1 }), '{"a":1}')
  assert.equal(canonical([undefined]), '[null]')
  assert.equal(canonical(undefined), 'null')
})

test('keys are sorted by UTF-16 code units and numbers are written as in RFC 8785', () => {
  // the example of RFC 8785, section 3.2.3
  const keys = {
    '\u20ac': 'Euro Sign',
    '\r': 'Carriage Return',
    '\ufb33': 'Hebrew',
    '1': 'One',
    '\ud83d\ude00': 'Emoji',
    '\u0080': 'Control',
    '\u00f6': 'Latin',
  }
  assert.deepEqual(Object.keys(JSON.parse(canonical(keys))), [
    '1',
    '\r',
    '\u0080',
    '\u00f6',
    '\u20ac',
    '\ud83d\ude00',
    '\ufb33',
  ])
  assert.equal(
    canonical([Number('333333333.33333329'), 1e30, 4.5, 2e-3, 1e-27, -0]),
    '[333333333.3333333,1e+30,4.5,0.002,1e-27,0]',
  )
})

test('every value has one canonical text, which parses to the same value', () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 6 }), (value) => {
      const json = JSON.parse(JSON.stringify(value)) as JsonValue
      const text = canonical(json)
      assert.deepEqual(JSON.parse(text), json)
      assert.equal(canonical(reversed(json)), text)
    }),
    { seed, numRuns: 500 },
  )
})

/** The same value with its keys in the opposite order. */
function reversed(value: JsonValue): JsonValue {
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map(reversed)
  const turned: { [key: string]: JsonValue } = {}
  for (const [key, entry] of Object.entries(value).reverse()) {
    Object.defineProperty(turned, key, {
      value: reversed(entry),
      enumerable: true,
      configurable: true,
      writable: true,
    })
  }
  return turned
}
