import assert from 'node:assert/strict'
import { test } from 'node:test'
import { binomialSampler, chiSquareTail, wilson } from '../../src/advice/distributions.ts'
import { seededChance } from '../../src/simulation/chance.ts'

const near = (actual: number, expected: number, within: number): void =>
  assert.ok(Math.abs(actual - expected) <= within, `${actual} is not ${expected} ± ${within}`)

test('the chi-square tail gives the values of printed tables', () => {
  // Abramowitz and Stegun, table 26.8: the 5 %, 1 % and 0.1 % points.
  const points = [
    [1, 3.841459, 0.05],
    [2, 9.21034, 0.01],
    [3, 7.814728, 0.05],
    [6, 16.811894, 0.01],
    [10, 29.588298, 0.001],
    [30, 43.772972, 0.05],
  ] as const
  for (const [degrees, x, tail] of points) near(chiSquareTail(x, degrees), tail, 1e-7)
  assert.equal(chiSquareTail(0, 3), 1)
})

test('the interval of Wilson gives the published examples, and holds for no events', () => {
  // Newcombe 1998, table I, method 3: 81 of 263, 15 of 148, 0 of 20, 1 of 29.
  const published = [
    [81, 263, 0.2553, 0.3662],
    [15, 148, 0.0624, 0.1605],
    [0, 20, 0, 0.1611],
    [1, 29, 0.0061, 0.1718],
  ] as const
  for (const [events, trials, low, high] of published) {
    near(wilson(events, trials)[0], low, 5e-5)
    near(wilson(events, trials)[1], high, 5e-5)
  }
  assert.deepEqual(wilson(0, 0), [0, 1])
})

test('binomial draws have the probabilities of the distribution, counted out', () => {
  const draw = binomialSampler(6, 0.3, seededChance(7))
  const counts = Array.from({ length: 7 }, () => 0)
  for (let index = 0; index < 60_000; index += 1) counts[draw()]! += 1
  const choose = [1, 6, 15, 20, 15, 6, 1]
  for (const [successes, count] of counts.entries()) {
    const share = choose[successes]! * 0.3 ** successes * 0.7 ** (6 - successes)
    near(count / 60_000, share, 4 * Math.sqrt((share * (1 - share)) / 60_000) + 1e-9)
  }
})

test('binomial draws of many trials have the mean and the spread of the distribution', () => {
  for (const [trials, share] of [
    [100_000, 0.2],
    [5_000, 0.001],
    [300, 0.97],
  ] as const) {
    const draw = binomialSampler(trials, share, seededChance(11))
    const values = Array.from({ length: 4_000 }, draw)
    const mean = values.reduce((sum, value) => sum + value, 0) / values.length
    const deviation = Math.sqrt(values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / values.length)
    const expected = Math.sqrt(trials * share * (1 - share))
    near(mean, trials * share, (4 * expected) / Math.sqrt(4_000))
    near(deviation / expected, 1, 0.06)
  }
  assert.equal(binomialSampler(5, 0, () => 0.5)(), 0)
  assert.equal(binomialSampler(5, 1, () => 0.5)(), 5)
})
