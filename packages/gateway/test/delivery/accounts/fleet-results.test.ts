import assert from 'node:assert/strict'
import { test } from 'node:test'
import { FleetResults, type Reported } from '../../../src/delivery/accounts/fleet-results.ts'

const resultAt = (at: number): Reported => ['a', at, 5, 0, { outcome: 'delivered' }, 0]

test('a batch is told again as it was until a question is answered, and heard once', () => {
  const [teller, hearer] = [new FleetResults('m1'), new FleetResults('m2')]
  assert.equal(teller.next(), undefined)
  teller.add(resultAt(1))
  const first = teller.next()!
  teller.add(resultAt(2))
  assert.equal(teller.next(), first)
  assert.deepEqual(hearer.hear(first), [resultAt(1)])
  assert.deepEqual(hearer.hear(first), [])
  teller.answered()
  assert.equal(teller.isEmpty, false)
  assert.deepEqual(hearer.hear(teller.next()!), [resultAt(2)])
  teller.answered()
  assert.deepEqual([teller.isEmpty, teller.next()], [true, undefined])
})

test('batches of several members are heard beside each other, and one that the server has dropped is empty', () => {
  const hearer = new FleetResults('m3')
  for (const member of ['m1', 'm2']) {
    const teller = new FleetResults(member)
    teller.add(resultAt(7))
    assert.deepEqual(hearer.hear(teller.next()!), [resultAt(7)])
  }
  assert.deepEqual(hearer.hear('[]'), [])
})

test('of results that wait for very long the oldest go first', () => {
  const teller = new FleetResults('m1')
  for (let at = 0; at < 2_010; at += 1) teller.add(resultAt(at))
  const heard = new FleetResults('m2').hear(teller.next()!)
  assert.deepEqual([heard.length, heard[0]![1]], [2_000, 10])
})
