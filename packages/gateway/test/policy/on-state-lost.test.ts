import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { SluiceError } from '../../src/errors.ts'
import { compilePolicy } from '../../src/policy/compile.ts'

const errorsOf = (onStateLost: unknown): readonly string[] => {
  try {
    compilePolicy({ version: 1, onStateLost })
  } catch (error) {
    return ((error as SluiceError).errors ?? []).map(({ path, message }) => `${path}: ${message}`)
  }
  return []
}

test('a category is held while the limits are away, unless the policy refuses it or all', () => {
  const policy = compilePolicy({ version: 1, onStateLost: { security: 'refuse' } })
  assert.deepEqual(
    ['security', 'product', undefined].map((category) => policy.onStateLost(category)),
    ['refuse', 'hold', 'hold'],
  )
  const strict = compilePolicy({ version: 1, onStateLost: { default: 'refuse', product: 'hold' } })
  assert.deepEqual(
    ['security', 'product', undefined].map((category) => strict.onStateLost(category)),
    ['refuse', 'hold', 'refuse'],
  )
  assert.equal(compilePolicy({ version: 1 }).onStateLost('product'), 'hold')
})

test('the version of a policy without onStateLost stays, and one with it is written out', () => {
  const plain = compilePolicy({ version: 1 })
  const written = compilePolicy({ version: 1, onStateLost: { b: 'hold', a: 'refuse' } })
  assert.notEqual(written.version, plain.version)
  assert.ok(!('onStateLost' in plain.document))
  assert.deepEqual(written.document.onStateLost, { a: 'refuse', b: 'hold' })
  assert.equal(compilePolicy(written.document).version, written.version)
})

test('the categories that are shared are these, or all but these', () => {
  const sharedOf = (onStateLost: object) => compilePolicy({ version: 1, onStateLost }).shared
  assert.deepEqual(sharedOf({ default: 'hold', security: 'share' }), {
    categories: ['security'],
    areListed: true,
  })
  assert.deepEqual(sharedOf({ default: 'share', a: 'refuse', b: 'share', c: 'hold' }), {
    categories: ['a', 'c'],
    areListed: false,
  })
  assert.deepEqual(sharedOf({ default: 'share' }), { categories: [], areListed: false })
  assert.equal(sharedOf({ security: 'refuse' }), undefined)
  assert.equal(compilePolicy({ version: 1 }).shared, undefined)
})

test('other words, and what is no object, are refused with their place', () => {
  assert.deepEqual(errorsOf({ default: 'wait' }), [
    'onStateLost.default: expected hold, share or refuse; this is "wait"',
  ])
  assert.match(
    errorsOf('hold')[0]!,
    /^onStateLost: expected categories or default, each with hold, share or refuse/,
  )
})
