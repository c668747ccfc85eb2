/**
 * Both curves of advice over the groups of one frequency each, the best frequency by them, and the bootstrap that says
 * how sure all of it is. Pure: chance comes in.
 */
import {
  type CountPoint,
  type Curve,
  churnCurve,
  engagementCurve,
  type Fit,
  fitCurve,
  type Parameters,
} from './curves.ts'
import { binomialSampler, chiSquareTail, type Interval, quantile } from './distributions.ts'
import type { Observation } from './observations.ts'

/** One frequency as observed and as fitted. */
export interface FitPoint extends CountPoint {
  /** Share of the recipients by the curve. */
  readonly fitted: number
  /** Distance of the count from the curve in standard deviations. */
  readonly deviation: number
}

export interface CurveFit {
  readonly parameters: Parameters
  /** Intervals of both parameters, 90 %. */
  readonly intervals: readonly [Interval, Interval]
  readonly points: readonly FitPoint[]
  /** Probability of so bad a fit where the curve is true: Pearson's chi-square. */
  readonly pValue: number
}

/** Value of one recipient that engages in a week, and cost of one that churns, in the same unit. */
export interface Worth {
  readonly value: number
  readonly cost: number
}

export interface Model {
  readonly engagement: Fit
  readonly churn: Fit
  /** The best frequency without the limit of complaints. */
  readonly best: number
  /** True where the benefit still grows where the search ended. */
  readonly isUnbounded: boolean
}

/** No message means no engagement by both the curve and the data, so a frequency of 0 tells about churn alone. */
export const engagedPoints = (groups: readonly Observation[]): CountPoint[] =>
  groups
    .filter(({ frequency }) => frequency > 0)
    .map(({ frequency, people, engaged }) => ({ frequency, people, count: engaged }))
export const churnedPoints = (groups: readonly Observation[]): CountPoint[] =>
  groups.map(({ frequency, people, churned }) => ({ frequency, people, count: churned }))

/** Fits both curves; `highest` is where the search for the best frequency ends. */
export function fitModel(groups: readonly Observation[], worth: Worth, highest: number): Model {
  const engagement = fitCurve(engagementCurve, engagedPoints(groups))
  const churn = fitCurve(churnCurve, churnedPoints(groups))
  const best = bestFrequency(engagement.parameters, churn.parameters, worth, highest)
  return { engagement, churn, best, isUnbounded: best >= highest }
}

/**
 * Finds the frequency at which one more message costs as much as it brings. What it brings falls with the frequency and
 * what it costs rises, so there is one at most, and halving finds it.
 */
function bestFrequency(
  [a, b]: Parameters,
  [c, d]: Parameters,
  { value, cost }: Worth,
  highest: number,
): number {
  const gain = (at: number): number => (value * a * b) / (1 + b * at) - cost * c * d * Math.exp(d * at)
  if (gain(0) <= 0) return 0
  if (gain(highest) >= 0) return highest
  let [low, high] = [0, highest]
  for (let step = 0; step < 60; step += 1) {
    const middle = (low + high) / 2
    if (gain(middle) > 0) low = middle
    else high = middle
  }
  return (low + high) / 2
}

/** value · engagement − cost · churn at a frequency. */
export function benefitAt(
  { engagement, churn }: Pick<Draw, 'engagement' | 'churn'>,
  at: number,
  { value, cost }: Worth,
): number {
  return value * engagementCurve.at(engagement, at) - cost * churnCurve.at(churn, at)
}

interface Draw {
  readonly engagement: Parameters
  readonly churn: Parameters
  readonly best: number
}

interface BootstrapOptions {
  readonly model: Model
  readonly worth: Worth
  readonly highest: number
  readonly draws: number
  readonly chance: () => number
}

/** Fits anew to recipients drawn from those observed; the counts of a frequency are then binomial around its share. */
export function bootstrap(groups: readonly Observation[], options: BootstrapOptions): Draw[] {
  const { model, worth, highest, draws, chance } = options
  const samplers = (points: readonly CountPoint[]) =>
    points.map((point) => ({
      point,
      draw: binomialSampler(point.people, point.count / point.people, chance),
    }))
  const engaged = samplers(engagedPoints(groups))
  const churned = samplers(churnedPoints(groups))
  const again = (curve: Curve, from: ReturnType<typeof samplers>, fit: Fit): Parameters => {
    const points = from.map(({ point, draw }) => ({ ...point, count: draw() }))
    // A draw in which nothing was counted has no curve; as good as none at all is what it says.
    if (points.every(({ count }) => count === 0)) return [1e-12, fit.parameters[1]]
    return fitCurve(curve, points, fit.parameters).parameters
  }
  return Array.from({ length: draws }, () => {
    const engagement = again(engagementCurve, engaged, model.engagement)
    const churn = again(churnCurve, churned, model.churn)
    return { engagement, churn, best: bestFrequency(engagement, churn, worth, highest) }
  })
}

/** The middle 90 % of values. */
export function intervalOf(values: readonly number[]): Interval {
  const sorted = values.toSorted((x, y) => x - y)
  return [quantile(sorted, 0.05), quantile(sorted, 0.95)]
}

/** Holds a curve against the counts to which it was fitted. */
export function curveFit(
  curve: Curve,
  { parameters }: Fit,
  { counted, drawn }: { readonly counted: readonly CountPoint[]; readonly drawn: readonly Parameters[] },
): CurveFit {
  const points = counted.map((point) => {
    const fitted = curve.at(parameters, point.frequency)
    const deviation = (point.count - point.people * fitted) / Math.sqrt(point.people * fitted * (1 - fitted))
    return { ...point, fitted, deviation }
  })
  return {
    parameters,
    intervals: [intervalOf(drawn.map(([first]) => first)), intervalOf(drawn.map(([, second]) => second))],
    points,
    pValue: pValueOf(points),
  }
}

/** The chi-square distribution holds from so many expected events on; neighbours with fewer are counted together. */
const expectedMin = 5

function pValueOf(points: readonly FitPoint[]): number {
  let chiSquare = 0
  let terms = 0
  let [counted, expected, variance] = [0, 0, 0]
  for (const [index, { people, count, fitted }] of points.entries()) {
    counted += count
    expected += people * fitted
    variance += people * fitted * (1 - fitted)
    if (expected < expectedMin && index < points.length - 1) continue
    chiSquare += (counted - expected) ** 2 / variance
    terms += 1
    ;[counted, expected, variance] = [0, 0, 0]
  }
  return chiSquareTail(chiSquare, terms - 2)
}
