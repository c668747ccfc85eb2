import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { channels, priorities } from '../../src/model.ts'
import { createLookup } from '../../src/policy/lookup.ts'
import type { Selectable, Selector } from '../../src/policy/selector.ts'
import { suits } from '../../src/policy/selector.ts'
import { seed } from './policies.ts'

const values = ['a', 'b', 'c', 'd']
const list = (from: readonly string[]) =>
  fc.uniqueArray(fc.constantFrom(...from), { minLength: 1, maxLength: 2 })

const selector: fc.Arbitrary<Selector> = fc
  .record(
    {
      category: list(values),
      channel: list(channels),
      module: list(values),
      priority: list(priorities),
      template: list(values),
    },
    { requiredKeys: [] },
  )
  .map((fields) => ({ kind: 'fields', fields }))

const selectable: fc.Arbitrary<Selectable> = fc
  .record({
    category: fc.constantFrom(...values, 'z'),
    channel: fc.constantFrom(...channels),
    module: fc.constantFrom(...values, 'z'),
    priority: fc.constantFrom(...priorities),
    template: fc.option(fc.constantFrom(...values, 'z'), { nil: undefined }),
  })
  .map(({ template, ...rest }) => (template === undefined ? rest : { ...rest, template }))

test('a cached result equals a new computation', () => {
  fc.assert(
    fc.property(
      fc.array(selector, { maxLength: 6 }),
      fc.array(selectable, { maxLength: 40 }),
      (selectors, asked) => {
        const workOut = (of: Selectable) => selectors.map((each) => suits(each, of))
        const lookup = createLookup(selectors, workOut)
        for (const of of asked) assert.deepEqual(lookup(of), workOut(of))
      },
    ),
    { seed, numRuns: 500 },
  )
})

test('values that no selector names are one kind, so clients cannot fill the memory', () => {
  let worked = 0
  const named: Selector = { kind: 'fields', fields: { category: ['a'], template: ['t'] } }
  const lookup = createLookup([named], () => {
    worked += 1
    return worked
  })
  for (let index = 0; index < 1_000; index++) {
    lookup({
      category: `c${index}`,
      channel: 'email',
      module: `m${index}`,
      priority: 'low',
      template: `t${index}`,
    })
  }
  assert.equal(worked, 1)
  lookup({ category: 'a', channel: 'email', module: 'm', priority: 'low' })
  assert.equal(worked, 2)
})
