/**
 * How often the best frequency lies in the interval of `sluice advise`, which is said to be 90 %: observations are drawn
 * from known parameters, by seed. `node --conditions=sluice-source bench/advice.ts --seeds 100`
 */
import { parseArgs } from 'node:util'
import { advise } from '../packages/gateway/src/advice/advise.ts'
import { seededChance } from '../packages/gateway/src/simulation/chance.ts'
import { bestOf, synthetic, type Truth, usualTruth } from '../packages/gateway/test/advice/synthetic.ts'

const { values } = parseArgs({ options: { seeds: { type: 'string', default: '100' } } })
const seeds = Number(values.seeds)

const designs: readonly (readonly [string, Truth, readonly number[], number])[] = [
  ['8 frequencies, 2,000 people', usualTruth, [1, 2, 3, 4, 5, 6, 7, 8], 2_000],
  ['5 frequencies, 5,000 people', usualTruth, [1, 2, 4, 6, 9], 5_000],
  [
    '6 frequencies, 20,000 people',
    { engagement: [0.05, 2], churn: [0.002, 0.5] },
    [0.5, 1, 2, 4, 6, 8],
    20_000,
  ],
  ['4 frequencies, 200 people', { engagement: [0.2, 0.7], churn: [0.02, 0.35] }, [1, 3, 5, 8], 200],
]
for (const [name, truth, frequencies, people] of designs) {
  const best = bestOf(truth)
  let [within, refused, width] = [0, 0, 0]
  const begun = performance.now()
  for (let seed = 1; seed <= seeds; seed += 1) {
    const observations = synthetic(truth, frequencies, people, seededChance(seed))
    const advised = advise({
      observations,
      value: 1,
      cost: 1,
      complaintsMax: 0.001,
      chance: seededChance(seed ^ 0xad),
    })
    if (!('advice' in advised)) {
      refused += 1
      continue
    }
    const [low, high] = advised.advice.interval
    if (low <= best && best <= high) within += 1
    width += high - low
  }
  const ms = (performance.now() - begun) / seeds
  console.log(
    `${name}: best ${best.toFixed(2)} within the interval in ${within} of ${seeds} seeds, ${refused} refused, mean width ${(width / (seeds - refused)).toFixed(2)}, ${ms.toFixed(0)} ms each`,
  )
}
