import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { CountedLease } from '../../src/delivery/accounts/counted-lease.ts'
import { LeaseList } from '../../src/delivery/lease-list.ts'
import { seeded, testSeed } from '../harness.ts'

const inOrder = ({ first }: LeaseList<CountedLease>): CountedLease[] => {
  const all: CountedLease[] = []
  for (let lease = first; lease !== undefined; lease = lease.next) all.push(lease)
  return all
}

test('a lease list keeps insertion order like a set, and each lease is in one list at most', () => {
  console.log(`SLUICE_SEED=${testSeed}`)
  const next = seeded(testSeed)
  const leases = Array.from({ length: 20 }, () => ({}) as CountedLease)
  const lists = [new LeaseList<CountedLease>(), new LeaseList<CountedLease>()] as const
  const sets = [new Set<CountedLease>(), new Set<CountedLease>()] as const
  for (let step = 0; step < 5_000; step += 1) {
    const lease = leases[Math.floor(next() * leases.length)]!
    const which = next() < 0.5 ? 0 : 1
    if (next() < 0.5) assert.equal(lists[which].delete(lease), sets[which].delete(lease))
    else if (lease.list === undefined) {
      lists[which].add(lease)
      sets[which].add(lease)
    }
    for (const each of [0, 1] as const) assert.deepEqual(inOrder(lists[each]).length, sets[each].size)
    assert.ok(inOrder(lists[which]).every((found, index) => found === [...sets[which]][index]))
  }
})
