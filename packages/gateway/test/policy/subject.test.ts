import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { personSubject, valuesSubject } from '../../src/policy/subject.ts'
import { seed } from './policies.ts'

test('a key reads as tenant and person', () => {
  assert.deepEqual(personSubject('acme', 'user-42'), {
    key: 'acme/user-42',
    tenant: 'acme',
    recipient: 'user-42',
  })
  assert.equal(personSubject('a/b', 'ada@example.com').key, 'a%2Fb/ada%40example.com')
  assert.deepEqual(valuesSubject('acme', 'actor=a'), { key: 'acme//actor=a', tenant: 'acme' })
})

test('braces never reach a key, where a cluster would take them for a hash tag', () => {
  assert.equal(/[{}]/.test(personSubject('{t}', '{x}').key), false)
})

const tricky = fc.string({
  unit: fc.constantFrom('a', 'b', '/', '%', '2', 'F', '"', '\\', '\ud800', '\udc00', 'é'),
  maxLength: 5,
})

test('two people never share a key', () => {
  const person = fc.tuple(tricky, tricky)
  fc.assert(
    fc.property(person, person, (one, other) => {
      const same = one[0] === other[0] && one[1] === other[1]
      assert.equal(personSubject(...one).key === personSubject(...other).key, same)
    }),
    { seed, numRuns: 5_000 },
  )
})

test('a person never has the key of a value set', () => {
  fc.assert(
    fc.property(
      tricky,
      tricky.filter((id) => id !== ''),
      tricky,
      (tenant, id, values) => {
        assert.notEqual(personSubject(tenant, id).key, valuesSubject(tenant, values).key)
      },
    ),
    { seed, numRuns: 2_000 },
  )
})
