import assert from 'node:assert/strict'
import { test } from 'node:test'
import { didYouMean, distance, suggest } from '../../src/config/suggestion.ts'

test('inserted, deleted, changed or swapped letters count one each', () => {
  assert.equal(distance('port', 'port'), 0)
  assert.equal(distance('prt', 'port'), 1)
  assert.equal(distance('porrt', 'port'), 1)
  assert.equal(distance('pirt', 'port'), 1)
  assert.equal(distance('prot', 'port'), 1)
  assert.equal(distance('', 'port'), 4)
  assert.equal(distance('kitten', 'sitting'), 3)
})

test('the nearest word is suggested, and none where none is near', () => {
  assert.equal(suggest('tenents', ['tenants', 'templates']), 'tenants')
  assert.equal(suggest('PORT', ['host', 'port']), 'port')
  assert.equal(suggest('xyzzy', ['host', 'port']), undefined)
  assert.equal(suggest('a'.repeat(100), ['a'.repeat(99)]), undefined)
  assert.equal(didYouMean('prot', ['port']), ': did you mean "port"?')
  assert.equal(didYouMean('zzzz', ['port']), '')
})
