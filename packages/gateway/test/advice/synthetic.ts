/** Observations made from known parameters, and the best frequency that they have in truth. */
import type { Observation } from '../../src/advice/observations.ts'

export interface Truth {
  readonly engagement: readonly [a: number, b: number]
  readonly churn: readonly [c: number, d: number]
}

export const usualTruth: Truth = { engagement: [0.12, 0.8], churn: [0.006, 0.38] }

const engagedShare = ({ engagement: [a, b] }: Truth, f: number): number => a * Math.log(1 + b * f)
const churnedShare = ({ churn: [c, d] }: Truth, f: number): number => c * Math.exp(d * f)

/** The best frequency by trying every thousandth of a message a week: no code is shared with the product. */
export function bestOf(truth: Truth, value = 1, cost = 1): number {
  let [best, most] = [0, Number.NEGATIVE_INFINITY]
  for (let f = 0; f <= 60; f += 0.001) {
    const benefit = value * engagedShare(truth, f) - cost * churnedShare(truth, f)
    if (benefit > most) [best, most] = [f, benefit]
  }
  return best
}

/** Draws each recipient by itself. */
export function synthetic(
  truth: Truth,
  frequencies: readonly number[],
  people: number,
  chance: () => number,
): Observation[] {
  return frequencies.map((frequency) => {
    let [engaged, churned] = [0, 0]
    for (let person = 0; person < people; person += 1) {
      if (chance() < engagedShare(truth, frequency)) engaged += 1
      if (chance() < churnedShare(truth, frequency)) churned += 1
    }
    return { frequency, people, engaged, churned }
  })
}
