import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Advice } from '../../src/advice/advice.ts'
import { type AdviceOptions, advise } from '../../src/advice/advise.ts'
import type { Observation } from '../../src/advice/observations.ts'
import { policyLine } from '../../src/advice/recommendation.ts'
import { seededChance } from '../../src/simulation/chance.ts'
import { bestOf, synthetic, type Truth, usualTruth } from './synthetic.ts'

const frequencies = [1, 2, 3, 4, 5, 6, 7, 8]

function advised(observations: readonly Observation[], options: Partial<AdviceOptions> = {}) {
  return advise({
    observations,
    value: 1,
    cost: 1,
    complaintsMax: 0.001,
    chance: seededChance(5),
    draws: 200,
    ...options,
  })
}

function adviceOf(observations: readonly Observation[], options: Partial<AdviceOptions> = {}): Advice {
  const result = advised(observations, options)
  assert.ok('advice' in result, JSON.stringify(result))
  return result.advice
}

function reasonsOf(observations: readonly Observation[], options: Partial<AdviceOptions> = {}): string {
  const result = advised(observations, options)
  assert.ok('reasons' in result)
  return result.reasons.join('\n')
}

/** Counts exactly as the curves say, so that nothing is left to chance. */
function exact(
  { engagement: [a, b], churn: [c, d] }: Truth,
  at = frequencies,
  people = 100_000,
): Observation[] {
  return at.map((frequency) => ({
    frequency,
    people,
    engaged: Math.round(people * a * Math.log(1 + b * frequency)),
    churned: Math.round(people * c * Math.exp(d * frequency)),
  }))
}

test('the best frequency of known parameters lies in the interval of 90 % for at least 17 of 20 seeds', () => {
  const best = bestOf(usualTruth)
  const found = Array.from({ length: 20 }, (_, seed) => {
    const observations = synthetic(usualTruth, frequencies, 2_000, seededChance(seed + 1))
    const { interval, frequency } = adviceOf(observations)
    assert.ok(interval[0] <= frequency && frequency <= interval[1], `seed ${seed + 1}`)
    return interval[0] <= best && best <= interval[1]
  })
  const within = found.filter(Boolean).length
  assert.ok(within >= 17, `${within} of 20; the seeds are 1 to 20`)
})

test('counts that lie on the curves give their parameters back, the best frequency, and no warning', () => {
  const advice = adviceOf(exact(usualTruth))
  assert.ok(Math.abs(advice.frequency - bestOf(usualTruth)) < 0.02, `${advice.frequency}`)
  for (const [found, known] of [
    [advice.engagement.parameters, usualTruth.engagement],
    [advice.churn.parameters, usualTruth.churn],
  ] as const)
    for (const index of [0, 1] as const) assert.ok(Math.abs(found[index] / known[index] - 1) < 0.01)
  assert.deepEqual(advice.warnings, [])
  assert.equal(policyLine(advice), 'max: [5/week]')
  const costly = adviceOf(exact(usualTruth), { cost: 5 })
  assert.ok(Math.abs(costly.frequency - bestOf(usualTruth, 1, 5)) < 0.02)
  assert.ok(costly.frequency < advice.frequency)
})

test('the same data and seed give the same advice', () => {
  const observations = synthetic(usualTruth, frequencies, 300, seededChance(3))
  assert.deepEqual(adviceOf(observations), adviceOf(observations))
  assert.notDeepEqual(
    adviceOf(observations).interval,
    adviceOf(observations, { chance: seededChance(6) }).interval,
  )
})

test('lines of one frequency count together', () => {
  const lines = exact(usualTruth)
  const halves = lines.flatMap((line) => {
    const half = (value: number) => Math.floor(value / 2)
    const first = {
      ...line,
      people: half(line.people),
      engaged: half(line.engaged),
      churned: half(line.churned),
    }
    return [
      first,
      {
        ...line,
        people: line.people - first.people,
        engaged: line.engaged - first.engaged,
        churned: line.churned - first.churned,
      },
    ]
  })
  assert.equal(adviceOf(halves).frequency, adviceOf(lines).frequency)
})

test('fewer than four frequencies of 200 people are refused, and what is missing is named', () => {
  const lines = exact(usualTruth, [1, 2, 3, 4], 200)
  assert.ok('advice' in advised(lines))
  const small = lines.map((line, index) => (index === 3 ? { ...line, people: 199 } : line))
  assert.equal(
    reasonsOf(small),
    'advice needs 4 different frequencies with 200 people each; 3 of them are there: 1 a week (200), 2 a week (200), 3 a week (200); too few people at 4 a week (199)',
  )
  assert.match(
    reasonsOf([lines[0]!, lines[0]!, lines[0]!, lines[0]!]),
    /1 of them is there: 1 a week \(800\)/,
  )
})

test('data in which nobody churned, or nobody engaged, allow no advice', () => {
  const lines = exact(usualTruth)
  assert.match(reasonsOf(lines.map((line) => ({ ...line, churned: 0 }))), /nobody churned at any frequency/)
  assert.match(reasonsOf(lines.map((line) => ({ ...line, engaged: 0 }))), /nobody engaged at any frequency/)
})

test('churn that does not rise gives a reason in place of a best frequency beyond all bounds', () => {
  assert.match(reasonsOf(exact(usualTruth).map((line) => ({ ...line, churned: 700 }))), /churn hardly rises/)
})

test('a best frequency outside of what was observed is called extrapolated, with one to try', () => {
  const above = adviceOf(exact(usualTruth, [0.5, 1, 1.5, 2, 3]))
  assert.match(
    above.warnings.join('\n'),
    /extrapolated: 5\.\d a week lies above all .* try 4 in a test first/,
  )
  const below = adviceOf(exact({ engagement: [0.12, 0.8], churn: [0.02, 0.4] }, [4, 5, 6, 7]))
  assert.ok(below.frequency < 4)
  assert.match(below.warnings.join('\n'), /lies below all .* try 3 in a test first/)
})

test('a form that the data do not have is a rejected fit', () => {
  const jump = exact(usualTruth).map((line) => ({ ...line, engaged: line.frequency < 4 ? 5_000 : 30_000 }))
  const { warnings, engagement, churn } = adviceOf(jump)
  assert.match(warnings.join('\n'), /the fit of engagement is rejected \(p < 0\.0001\)/)
  assert.ok(engagement.pValue < 0.01 && churn.pValue > 0.9)
})

test('fits of true curves are rejected in about one of a hundred', () => {
  let rejected = 0
  for (let seed = 1; seed <= 60; seed += 1) {
    const observations = synthetic(usualTruth, frequencies, 400, seededChance(seed))
    const { engagement, churn } = adviceOf(observations, { draws: 1 })
    rejected += [engagement, churn].filter(({ pValue }) => pValue < 0.01).length
  }
  assert.ok(rejected <= 5, `${rejected} of 120`)
})

const complained = (rates: readonly number[], delivered = 100_000): Observation[] =>
  exact(usualTruth).map((line, index) => ({
    ...line,
    delivered,
    complaints: Math.round(rates[index]! * delivered),
  }))

test('the limit of complaints holds the frequency down where its upper bound reaches it first', () => {
  const rising = complained([0.0001, 0.0002, 0.0004, 0.0012, 0.002, 0.003, 0.004, 0.006])
  const { frequency, isConstrained, complaints, interval } = adviceOf(rising)
  assert.ok(isConstrained)
  // Upper bounds by hand: 40 of 100,000 at most 0.0545 %, 120 of 100,000 at most 0.1435 %.
  const expected = 3 + (0.001 - 0.000545) / (0.001435 - 0.000545)
  assert.ok(Math.abs(frequency - expected) < 0.01, `${frequency}`)
  assert.equal(complaints?.from, frequency)
  assert.ok(interval[0] < frequency && frequency < interval[1] && interval[1] < 4)
  assert.equal(policyLine(adviceOf(rising)), 'max: [3/week]')
})

test('a limit of complaints that is reached above the best frequency changes nothing', () => {
  const late = complained([0.0001, 0.0001, 0.0002, 0.0002, 0.0003, 0.0004, 0.002, 0.003])
  const { frequency, isConstrained, complaints } = adviceOf(late)
  assert.ok(!isConstrained)
  assert.equal(frequency, adviceOf(exact(usualTruth)).frequency)
  assert.ok(complaints!.from! > 6 && complaints!.from! < 7)
  assert.equal(adviceOf(late, { complaintsMax: 0.01 }).complaints?.from, undefined)
})

test('few messages at a low frequency do not bind where a higher one is known to stay below', () => {
  const lines = complained([0, 0, 0.0001, 0.0001, 0.0001, 0.0001, 0.0001, 0.0001]).map((line, index) =>
    index === 0 ? { ...line, delivered: 500 } : line,
  )
  assert.ok(!adviceOf(lines).isConstrained)
})

test('complaints above the limit everywhere, or too few messages to tell, allow no advice', () => {
  assert.match(
    reasonsOf(complained(frequencies.map(() => 0.004))),
    /at no observed frequency .* below 0\.1 %.*\(at most 0\.44 %/,
  )
  assert.match(
    reasonsOf(
      complained(
        frequencies.map(() => 0),
        1_000,
      ),
    ),
    /0 of 1000 delivered, which are too few to tell/,
  )
})

test('segments whose intervals lie apart are named with their own frequency', () => {
  const other: Truth = { engagement: [0.12, 0.8], churn: [0.02, 0.5] }
  const lines = [
    ...exact(usualTruth).map((line) => ({ ...line, segment: 'old' })),
    ...exact(other).map((line) => ({ ...line, segment: 'new' })),
    { frequency: 2, people: 50, engaged: 5, churned: 1, segment: 'tiny' },
  ]
  const { warnings, segments } = adviceOf(lines)
  assert.match(warnings.join('\n'), /segments disagree: old 5\.4 \(5\.[34]–5\.5\), new 2\.\d/)
  assert.match(warnings.join('\n'), /too little data to judge alone: tiny/)
  assert.deepEqual(
    segments.map(({ name }) => name),
    ['old', 'new', 'tiny'],
  )
  const same = exact(usualTruth).flatMap((line) => [
    { ...line, segment: 'a' },
    { ...line, segment: 'b' },
  ])
  assert.deepEqual(adviceOf(same).warnings, [])
})

test('a group that gets nothing tells how many churn anyway', () => {
  const lines = exact(usualTruth, [0, ...frequencies])
  const { frequency, engagement, churn } = adviceOf(lines)
  assert.deepEqual([engagement.points.length, churn.points.length], [8, 9])
  assert.ok(Math.abs(frequency - bestOf(usualTruth)) < 0.02)
})
