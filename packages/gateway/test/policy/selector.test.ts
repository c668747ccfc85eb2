import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { Selector, ValueField } from '../../src/policy/selector.ts'
import {
  authorsOf,
  escapeValue,
  namesCategoryOrChannel,
  perFields,
  selectorFields,
  selectorText,
  suits,
  valuesText,
} from '../../src/policy/selector.ts'
import { notification, seed } from './policies.ts'

const marketingMail: Selector = {
  kind: 'fields',
  fields: { category: ['marketing'], channel: ['email', 'push'] },
}

test('a selector matches where every field that it names holds one of its values', () => {
  assert.equal(suits(marketingMail, notification({ category: 'marketing' })), true)
  assert.equal(suits(marketingMail, notification({ category: 'marketing', channel: 'push' })), true)
  assert.equal(suits(marketingMail, notification({ category: 'marketing', channel: 'sms' })), false)
  assert.equal(suits(marketingMail, notification({ category: 'product' })), false)
})

test('a selector of templates does not match a notification without one', () => {
  const selector: Selector = { kind: 'fields', fields: { template: ['new-comment'] } }
  assert.equal(suits(selector, notification()), false)
  assert.equal(suits(selector, notification({ template: 'new-comment' })), true)
})

test('any matches everything, and otherwise nothing by itself', () => {
  assert.equal(suits({ kind: 'any' }, notification()), true)
  assert.equal(suits({ kind: 'otherwise' }, notification()), false)
})

test('only limits that name category or channel exclude a notification from otherwise', () => {
  const expected = { category: true, channel: true, module: false, priority: false, template: false }
  for (const field of selectorFields) {
    assert.equal(namesCategoryOrChannel({ kind: 'fields', fields: { [field]: ['x'] } }), expected[field])
  }
  assert.equal(namesCategoryOrChannel({ kind: 'any' }), false)
})

test('a selector has a canonical text', () => {
  assert.equal(selectorText(marketingMail), 'category=marketing,channel=email+push')
  assert.equal(selectorText({ kind: 'any' }), 'any')
  assert.equal(selectorText({ kind: 'otherwise' }), 'otherwise')
})

test('values that hold separators are escaped', () => {
  assert.equal(escapeValue('author-7'), 'author-7')
  assert.equal(escapeValue('a,channel=b|c/d+e%'), 'a%2Cchannel%3Db%7Cc%2Fd%2Be%25')
  assert.equal(
    valuesText(['actor', 'channel'], { actor: 'a,channel=sms' }),
    'actor=a%2Cchannel%3Dsms,channel=',
  )
})

/** Texts that imitate several values: without the escaping many sets of them would have the same text. */
const pretending = [
  '',
  'a',
  ',',
  '%2C',
  'a+a',
  '+',
  '%',
  'a,channel=a',
  'a,template=a',
  'a,channel=a,template=a',
]
const tricky = fc.constantFrom(...pretending)

/**
 * Asserts that each value has a text of its own. Comparing many at once finds collisions that single pairs
 * hardly ever meet.
 */
function assertApart<T>(things: readonly T[], textOf: (thing: T) => string): void {
  const byText = new Map<string, string>()
  for (const thing of things) {
    const meaning = JSON.stringify(thing)
    const text = textOf(thing)
    assert.equal(byText.get(text) ?? meaning, meaning, `both read ${text}`)
    byText.set(text, meaning)
  }
}

test('two different value sets never share a text', () => {
  const fields = ['actor', 'channel', 'template'] as const satisfies readonly ValueField[]
  const all = pretending.flatMap((actor) =>
    pretending.flatMap((channel) => pretending.map((template) => ({ actor, channel, template }))),
  )
  assertApart(all, (values) => valuesText(fields, values))
})

test('two different selectors never share a text', () => {
  const list = fc.uniqueArray(tricky, { minLength: 1, maxLength: 3 }).map((values) => values.toSorted())
  const selector = fc
    .tuple(fc.option(list, { freq: 1 }), fc.option(list, { freq: 1 }), list)
    .map(([category, channel, template]) => ({
      kind: 'fields' as const,
      fields: { ...(category && { category }), ...(channel && { channel }), template },
    }))
  fc.assert(
    fc.property(fc.array(selector, { minLength: 300, maxLength: 300 }), (selectors) => {
      assertApart(selectors, (each) => selectorText(each))
    }),
    { seed, numRuns: 30 },
  )
})

test('the authors are those of the digest, each once, or the single one, or the empty one', () => {
  assert.deepEqual(authorsOf({ actor: 'a', actors: ['b', 'c', 'b'] }), ['b', 'c'])
  assert.deepEqual(authorsOf({ actor: 'a', actors: [] }), ['a'])
  assert.deepEqual(authorsOf({ actor: 'a' }), ['a'])
  assert.deepEqual(authorsOf({}), [''])
})

test('fields are in the order of their canonical text', () => {
  assert.deepEqual([...selectorFields].sort(), selectorFields)
  assert.deepEqual([...perFields].sort(), perFields)
})
