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

test('a selector suits where every field that it names holds one of its values', () => {
  assert.equal(suits(marketingMail, notification({ category: 'marketing' })), true)
  assert.equal(suits(marketingMail, notification({ category: 'marketing', channel: 'push' })), true)
  assert.equal(suits(marketingMail, notification({ category: 'marketing', channel: 'sms' })), false)
  assert.equal(suits(marketingMail, notification({ category: 'product' })), false)
})

test('a selector of templates does not suit what has none', () => {
  const selector: Selector = { kind: 'fields', fields: { template: ['new-comment'] } }
  assert.equal(suits(selector, notification()), false)
  assert.equal(suits(selector, notification({ template: 'new-comment' })), true)
})

test('any suits everything, and otherwise nothing by itself', () => {
  assert.equal(suits({ kind: 'any' }, notification()), true)
  assert.equal(suits({ kind: 'otherwise' }, notification()), false)
})

test('only category and channel take a notification away from otherwise', () => {
  const expected = { category: true, channel: true, module: false, priority: false, template: false }
  for (const field of selectorFields) {
    assert.equal(namesCategoryOrChannel({ kind: 'fields', fields: { [field]: ['x'] } }), expected[field])
  }
  assert.equal(namesCategoryOrChannel({ kind: 'any' }), false)
})

test('a selector reads as what it selects', () => {
  assert.equal(selectorText(marketingMail), 'category=marketing,channel=email+push')
  assert.equal(selectorText({ kind: 'any' }), 'any')
  assert.equal(selectorText({ kind: 'otherwise' }), 'otherwise')
})

test('values that hold separators stay what they are', () => {
  assert.equal(escapeValue('author-7'), 'author-7')
  assert.equal(escapeValue('a,channel=b|c/d+e%'), 'a%2Cchannel%3Db%7Cc%2Fd%2Be%25')
  assert.equal(
    valuesText(['actor', 'channel'], { actor: 'a,channel=sms' }),
    'actor=a%2Cchannel%3Dsms,channel=',
  )
})

/** Texts that pretend to be several values: without the escaping many sets of them would read the same. */
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

/** Whether each thing has a text of its own. Looking at many at once finds what single pairs hardly ever meet. */
function assertApart<T>(things: readonly T[], textOf: (thing: T) => string): void {
  const byText = new Map<string, string>()
  for (const thing of things) {
    const meaning = JSON.stringify(thing)
    const text = textOf(thing)
    assert.equal(byText.get(text) ?? meaning, meaning, `both read ${text}`)
    byText.set(text, meaning)
  }
}

test('two different value sets never have one text', () => {
  const fields = ['actor', 'channel', 'template'] as const satisfies readonly ValueField[]
  const all = pretending.flatMap((actor) =>
    pretending.flatMap((channel) => pretending.map((template) => ({ actor, channel, template }))),
  )
  assertApart(all, (values) => valuesText(fields, values))
})

test('two different selectors never have one text', () => {
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

test('the authors are those of the digest, each once, or the one, or the empty one', () => {
  assert.deepEqual(authorsOf({ actor: 'a', actors: ['b', 'c', 'b'] }), ['b', 'c'])
  assert.deepEqual(authorsOf({ actor: 'a', actors: [] }), ['a'])
  assert.deepEqual(authorsOf({ actor: 'a' }), ['a'])
  assert.deepEqual(authorsOf({}), [''])
})

test('fields stand in the order of their canonical text', () => {
  assert.deepEqual([...selectorFields].sort(), selectorFields)
  assert.deepEqual([...perFields].sort(), perFields)
})
