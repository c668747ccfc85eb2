/**
 * Frequency advice: how many messages a week bring the most. Engagement and churn are fitted to what was observed, and
 * the frequency maximises value · engagement − cost · churn below the limit of complaints. Bootstrap draws over the
 * recipients give its interval. Too little data gives reasons and no advice. Pure: chance comes in.
 */
import type { Advised, Segment } from './advice.ts'
import { type ComplaintLimit, complaintLimit } from './complaints.ts'
import { churnCurve, engagementCurve } from './curves.ts'
import { binomialSampler, type Interval } from './distributions.ts'
import {
  benefitAt,
  bootstrap,
  churnedPoints,
  curveFit,
  engagedPoints,
  fitModel,
  intervalOf,
  type Worth,
} from './model.ts'
import type { Observation } from './observations.ts'
import { missingData, peopleMin, tooManyComplaints, unboundedText, warningsOf } from './warnings.ts'

export interface AdviceOptions extends Worth {
  readonly observations: readonly Observation[]
  /** Complaints at most, as a share of the delivered messages. */
  readonly complaintsMax: number
  /** Random numbers from 0 to 1, of the bootstrap. */
  readonly chance: () => number
  /** Bootstrap draws. @defaultValue 1000 */
  readonly draws?: number
}

/** A best frequency beyond so many times the highest observed one is no advice. */
const beyondMax = 10
const drawsUsual = 1_000

export function advise(options: AdviceOptions): Advised {
  const { observations, complaintsMax, draws = drawsUsual, chance } = options
  const groups = merged(observations)
  const missing = missingData(groups)
  if (missing.length > 0) return { reasons: missing }
  const observed = rangeOf(groups)
  const highest = observed[1] * beyondMax
  const model = fitModel(groups, options, highest)
  const complaints = complaintLimit(groups, complaintsMax)
  if (complaints?.from === 0) return { reasons: [tooManyComplaints(complaints)] }
  const ceiling = complaints?.from ?? Number.POSITIVE_INFINITY
  if (model.isUnbounded && ceiling > model.best) return { reasons: [unboundedText(observed)] }

  const drawn = bootstrap(groups, { model, worth: options, highest, draws, chance })
  const frequency = Math.min(ceiling, model.best)
  const drawCeiling = complaints === undefined ? () => ceiling : ceilingDraws(groups, complaints, chance)
  const interval = intervalOf(drawn.map(({ best }) => Math.min(drawCeiling(), best)))
  const engagement = curveFit(engagementCurve, model.engagement, {
    counted: engagedPoints(groups),
    drawn: drawn.map((draw) => draw.engagement),
  })
  const churn = curveFit(churnCurve, model.churn, {
    counted: churnedPoints(groups),
    drawn: drawn.map((draw) => draw.churn),
  })
  const curves = { engagement: engagement.parameters, churn: churn.parameters }
  const benefit = frequenciesShown(frequency, observed).map((at) => {
    const [low, high] = intervalOf(drawn.map((draw) => benefitAt(draw, at, options)))
    return { frequency: at, benefit: benefitAt(curves, at, options), low, high }
  })
  const segments = segmentsOf(options)
  const isConstrained = ceiling < model.best
  const found = {
    worth: { value: options.value, cost: options.cost },
    frequency,
    interval,
    engagement,
    churn,
    complaints,
    isConstrained,
    observed,
    segments,
    benefit,
  }
  const warnings = warningsOf({ ...found, model, highest })
  return { advice: { ...found, warnings } }
}

/** Draws the complaints anew, each time with the frequency at which their limit binds; the lowest one at least. */
function ceilingDraws(
  groups: readonly Observation[],
  { limit, points }: ComplaintLimit,
  chance: () => number,
): () => number {
  const samplers = new Map(
    points.map(({ frequency, complaints, delivered }) => [
      frequency,
      binomialSampler(delivered, complaints / delivered, chance),
    ]),
  )
  const lowest = points[0]!.frequency
  return () => {
    const drawn = groups.map((group) => {
      const draw = samplers.get(group.frequency)
      return draw === undefined ? group : { ...group, complaints: draw() }
    })
    const from = complaintLimit(drawn, limit)?.from ?? Number.POSITIVE_INFINITY
    return Math.max(lowest, from)
  }
}

const added = ['people', 'engaged', 'churned'] as const

/** Adds the lines of one frequency; the lowest frequency comes first. */
function merged(observations: readonly Observation[]): Observation[] {
  const byFrequency = new Map<number, Observation>()
  for (const line of observations) {
    const known = byFrequency.get(line.frequency)
    if (known === undefined) {
      byFrequency.set(line.frequency, line)
      continue
    }
    const sums = Object.fromEntries(added.map((name) => [name, known[name] + line[name]]))
    const delivered = (known.delivered ?? 0) + (line.delivered ?? 0)
    const complaints = (known.complaints ?? 0) + (line.complaints ?? 0)
    byFrequency.set(line.frequency, { ...known, ...sums, delivered, complaints })
  }
  return [...byFrequency.values()].sort((a, b) => a.frequency - b.frequency)
}

function rangeOf(groups: readonly Observation[]): Interval {
  const frequencies = groups.filter(({ people }) => people >= peopleMin).map(({ frequency }) => frequency)
  return [Math.min(...frequencies), Math.max(...frequencies)]
}

/** Sixty steps from 0 to a little beyond what was observed and, where that is near, the best frequency. */
function frequenciesShown(frequency: number, [, highest]: Interval): number[] {
  const last = Math.max(highest, Math.min(frequency, 2 * highest)) * 1.15
  return Array.from({ length: 61 }, (_, index) => (last * index) / 60)
}

/** Advises each segment by itself, where there are several. */
function segmentsOf(options: AdviceOptions): readonly Segment[] {
  const names = [...new Set(options.observations.map(({ segment }) => segment ?? ''))]
  if (names.length < 2) return []
  return names.map((name) => {
    const observations = options.observations
      .filter(({ segment }) => (segment ?? '') === name)
      .map(({ segment, ...observation }) => observation)
    const advised = advise({ ...options, observations })
    if (!('advice' in advised)) return { name, frequency: undefined, interval: undefined }
    return { name, frequency: advised.advice.frequency, interval: advised.advice.interval }
  })
}
