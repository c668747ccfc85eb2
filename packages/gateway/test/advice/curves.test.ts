import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type CountPoint, churnCurve, engagementCurve, fitCurve } from '../../src/advice/curves.ts'
import { seededChance } from '../../src/simulation/chance.ts'
import { synthetic } from './synthetic.ts'

/** Log-likelihood written out by hand, and its maximum by a grid that is made finer nine times. */
function bruteForce(
  shareAt: (first: number, second: number, frequency: number) => number,
  points: readonly CountPoint[],
): { first: number; second: number; most: number } {
  let best = { first: 0.03, second: 0.3, most: Number.NEGATIVE_INFINITY }
  let reach = 6
  for (let round = 0; round < 9; round += 1) {
    const middle = best
    for (let i = -20; i <= 20; i += 1) {
      for (let j = -20; j <= 20; j += 1) {
        const first = middle.first * Math.exp((reach * i) / 20)
        const second = middle.second * Math.exp((reach * j) / 20)
        let sum = 0
        for (const { frequency, people, count } of points) {
          const share = shareAt(first, second, frequency)
          sum += share >= 1 ? -1e300 : count * Math.log(share) + (people - count) * Math.log(1 - share)
        }
        if (sum > best.most) best = { first, second, most: sum }
      }
    }
    reach *= 0.4
  }
  return best
}

test('the fit is the maximum of the likelihood that a grid finds, for both curves', () => {
  for (const seed of [1, 2, 3]) {
    const truth = { engagement: [0.09, 0.6 * seed], churn: [0.004 * seed, 0.31] } as const
    const observations = synthetic(truth, [0.5, 1, 2, 4, 7], 1_500, seededChance(seed))
    const engaged = observations.map(({ frequency, people, engaged }) => ({
      frequency,
      people,
      count: engaged,
    }))
    const churned = observations.map(({ frequency, people, churned }) => ({
      frequency,
      people,
      count: churned,
    }))
    for (const [curve, points, shareAt] of [
      [engagementCurve, engaged, (a: number, b: number, f: number) => a * Math.log(1 + b * f)],
      [churnCurve, churned, (c: number, d: number, f: number) => c * Math.exp(d * f)],
    ] as const) {
      const expected = bruteForce(shareAt, points)
      const fit = fitCurve(curve, points)
      assert.ok(
        fit.logLikelihood >= expected.most - 1e-6,
        `seed ${seed}: ${fit.logLikelihood} < ${expected.most}`,
      )
      assert.ok(Math.abs(fit.parameters[0] / expected.first - 1) < 0.01, `seed ${seed}`)
      assert.ok(Math.abs(fit.parameters[1] / expected.second - 1) < 0.01, `seed ${seed}`)
      const near = fitCurve(curve, points, [expected.first * 3, expected.second / 3])
      assert.ok(Math.abs(near.logLikelihood - fit.logLikelihood) < 1e-6)
    }
  }
})

test('counts without a bend end at the bound of the shape, and the fit says which', () => {
  const straight = [1, 2, 4, 8].map((frequency) => ({ frequency, people: 10_000, count: 100 * frequency }))
  assert.equal(fitCurve(engagementCurve, straight).bound, 'min')
  const falling = [1, 2, 4, 8].map((frequency) => ({ frequency, people: 10_000, count: 900 / frequency }))
  assert.equal(fitCurve(churnCurve, falling).bound, 'min')
  assert.equal(fitCurve(engagementCurve, falling).bound, 'max')
})
