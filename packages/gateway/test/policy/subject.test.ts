import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { recipientSubject, valuesSubject } from '../../src/policy/subject.ts'
import { seed } from './policies.ts'

test('a key is made of tenant and recipient', () => {
  assert.deepEqual(recipientSubject('acme', 'user-42'), {
    key: 'acme/user-42',
    tenant: 'acme',
    recipient: 'user-42',
  })
  assert.equal(recipientSubject('a/b', 'ada@example.com').key, 'a%2Fb/ada@example.com')
  assert.deepEqual(valuesSubject('acme', 'actor=a'), { key: 'acme//actor=a', tenant: 'acme' })
})

test('braces never reach a key, where a Redis Cluster would take them for a hash tag', () => {
  assert.equal(/[{}]/.test(recipientSubject('{t}', '{x}').key), false)
})

const tricky = fc.string({
  unit: fc.constantFrom('a', '/', '%', '%2F', '\ud800', '"\\ud800"'),
  maxLength: 3,
})

test('two recipients never share a key', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(tricky, tricky), { minLength: 500, maxLength: 500 }), (recipients) => {
      const byKey = new Map<string, string>()
      for (const [tenant, id] of recipients) {
        const who = JSON.stringify([tenant, id])
        const { key } = recipientSubject(tenant, id)
        assert.equal(byKey.get(key) ?? who, who, `both have the key ${key}`)
        byKey.set(key, who)
      }
    }),
    { seed, numRuns: 30 },
  )
})

test('a recipient never has the key of a value set', () => {
  fc.assert(
    fc.property(
      tricky,
      tricky.filter((id) => id !== ''),
      tricky,
      (tenant, id, values) => {
        assert.notEqual(recipientSubject(tenant, id).key, valuesSubject(tenant, values).key)
      },
    ),
    { seed, numRuns: 2_000 },
  )
})

test('keys of any length fit the limiter and stay distinct', () => {
  const long = '/'.repeat(4_096)
  const keys = [
    ...['', '1', '2'].map((end) => recipientSubject(long, long + end).key),
    ...['', '1', '2'].map((end) => valuesSubject('acme', long + end).key),
  ]
  assert.equal(new Set(keys).size, keys.length)
  for (const key of keys) assert.ok(key.length <= 1_024)
})

test('a shortened key cannot be given as an id', () => {
  const { key } = recipientSubject('acme', 'a'.repeat(4_096))
  assert.notEqual(recipientSubject('acme', key.slice('acme/'.length)).key, key)
})
