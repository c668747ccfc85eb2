import assert from 'node:assert/strict'
import { test } from 'node:test'
import { SlicedCount } from '../../../src/delivery/accounts/sliced-count.ts'
import { seeded, testSeed } from '../../harness.ts'

test('a sliced count sums the last slices, however long nothing was counted in between', (t) => {
  t.diagnostic(`seed ${testSeed}`)
  const chance = seeded(testSeed)
  const count = new SlicedCount(1_000, 10)
  const instants: number[] = []
  let now = 0
  for (let step = 0; step < 5_000; step += 1) {
    now += Math.floor(chance() < 0.02 ? chance() * 3_000 : chance() * 60)
    if (chance() < 0.7) {
      count.add(now)
      instants.push(now)
    }
    const oldest = (Math.floor(now / 100) - 9) * 100
    assert.equal(count.sum(now), instants.filter((at) => at >= oldest).length, `at ${now}`)
  }
  assert.equal(count.sum(now + 1_000), 0, 'exactly a window later nothing is left')
})

test('a sliced count covers no more time than has passed since the first event', () => {
  const count = new SlicedCount(1_000, 10)
  assert.equal(count.coveredMs(5_000), 0)
  count.add(5_000)
  assert.equal(count.coveredMs(5_040), 40)
  assert.equal(count.coveredMs(9_950), 950)
})

test('a clock that steps back neither loses events nor keeps them too long', () => {
  const count = new SlicedCount(1_000, 10)
  count.add(5_000)
  count.add(3_000)
  assert.equal(count.sum(3_000), 2)
  assert.equal(count.sum(5_000), 2)
  assert.equal(count.sum(6_000), 0)
})
