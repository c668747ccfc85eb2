/**
 * The two curves of advice, fitted to counts: engagement a·ln(1 + b·f) and churn c·e^(d·f), where f is the number of
 * messages a week and the value is a share of the recipients. Maximum likelihood of binomial counts by
 * Levenberg–Marquardt on the expected information (which is iteratively reweighted least squares with damping), from a
 * grid of starts. The search moves the logarithms of the parameters, so that they stay above 0. Pure.
 */

/** The recipients of one frequency, and how many of them engaged or churned. */
export interface CountPoint {
  readonly frequency: number
  readonly people: number
  readonly count: number
}

/** Both parameters of a curve: `[a, b]` or `[c, d]`. */
export type Parameters = readonly [number, number]

export interface Curve {
  /** Value at a frequency: a share of the recipients, not bounded by 1. */
  at(parameters: Parameters, frequency: number): number
  /** Derivatives of the value by the logarithm of each parameter. */
  slopes(parameters: Parameters, frequency: number): Parameters
  /** Bounds of the second parameter times the highest frequency: beyond them the shape no longer changes. */
  readonly shape: { readonly min: number; readonly max: number }
  /** Second parameters to begin with, times the highest frequency. */
  readonly starts: readonly number[]
}

export const engagementCurve: Curve = {
  at: ([a, b], frequency) => a * Math.log1p(b * frequency),
  slopes: ([a, b], frequency) => [a * Math.log1p(b * frequency), (a * b * frequency) / (1 + b * frequency)],
  shape: { min: 1e-3, max: 1e6 },
  starts: [0.05, 0.5, 3, 20, 300],
}

export const churnCurve: Curve = {
  at: ([c, d], frequency) => c * Math.exp(d * frequency),
  slopes: ([c, d], frequency) => {
    const value = c * Math.exp(d * frequency)
    return [value, value * d * frequency]
  },
  shape: { min: 1e-4, max: 60 },
  starts: [0.02, 0.3, 1, 2.5, 6],
}

export interface Fit {
  readonly parameters: Parameters
  readonly logLikelihood: number
  /** The bound that the shape has reached, where the counts show no bend. */
  readonly bound: 'min' | 'max' | undefined
}

const iterationsMax = 200
const shareMax = 1 - 1e-9

/**
 * Fits a curve to counts, of which at least one is above 0.
 *
 * @param near a fit of similar counts; the search begins there, and at two starts of the grid besides
 */
export function fitCurve(curve: Curve, points: readonly CountPoint[], near?: Parameters): Fit {
  const frequencyMax = Math.max(...points.map(({ frequency }) => frequency))
  const grid = near === undefined ? curve.starts : curve.starts.filter((_, index) => index % 2 === 1)
  const starts = grid.map((shape) => startOf(curve, points, shape / frequencyMax))
  const bounds = [curve.shape.min / frequencyMax, curve.shape.max / frequencyMax] as const
  const fits = [...(near === undefined ? [] : [near]), ...starts].map((start) =>
    climb(curve, points, start, bounds),
  )
  return fits.reduce((best, fit) => (fit.logLikelihood > best.logLikelihood ? fit : best))
}

/** Returns parameters to start from: the shape as given, and the ratio of what was counted to what a factor of 1 would give. */
function startOf(curve: Curve, points: readonly CountPoint[], shape: number): Parameters {
  const unit: Parameters = [1, shape]
  const counted = points.reduce((sum, { count }) => sum + count, 0)
  const expected = points.reduce((sum, { people, frequency }) => sum + people * curve.at(unit, frequency), 0)
  const highest = Math.max(...points.map(({ frequency }) => curve.at(unit, frequency)))
  return [Math.min(counted / expected, 0.95 / highest), shape]
}

function logLikelihood(curve: Curve, points: readonly CountPoint[], parameters: Parameters): number {
  let sum = 0
  for (const { frequency, people, count } of points) {
    const share = curve.at(parameters, frequency)
    if (!(share < shareMax)) return Number.NEGATIVE_INFINITY
    sum += (count === 0 ? 0 : count * Math.log(share)) + (people - count) * Math.log1p(-share)
  }
  return sum
}

function climb(
  curve: Curve,
  points: readonly CountPoint[],
  start: Parameters,
  [shapeMin, shapeMax]: readonly [number, number],
): Fit {
  let at: Parameters = [start[0], Math.min(shapeMax, Math.max(shapeMin, start[1]))]
  let reached = logLikelihood(curve, points, at)
  let damping = 1e-3
  for (let iteration = 0; iteration < iterationsMax && damping < 1e12; iteration += 1) {
    const step = stepAt(curve, points, at, damping)
    const next: Parameters = [
      at[0] * Math.exp(step[0]),
      Math.min(shapeMax, Math.max(shapeMin, at[1] * Math.exp(step[1]))),
    ]
    const value = logLikelihood(curve, points, next)
    if (!(value > reached)) {
      damping *= 10
      continue
    }
    const gain = value - reached
    at = next
    reached = value
    damping = Math.max(damping / 10, 1e-12)
    if (gain < 1e-10) break
  }
  const bound = at[1] <= shapeMin * 1.001 ? 'min' : at[1] >= shapeMax * 0.999 ? 'max' : undefined
  return { parameters: at, logLikelihood: reached, bound }
}

/** A step in the logarithms of both parameters is at most so long: e² is a factor of seven. */
const stepMax = 2

/** Solves (I + damping · diagonal of I) · step = gradient, where I is the expected information. */
function stepAt(
  curve: Curve,
  points: readonly CountPoint[],
  parameters: Parameters,
  damping: number,
): Parameters {
  let [g0, g1, i00, i01, i11] = [0, 0, 0, 0, 0]
  for (const { frequency, people, count } of points) {
    const share = Math.min(shareMax, Math.max(1e-300, curve.at(parameters, frequency)))
    const [s0, s1] = curve.slopes(parameters, frequency)
    const residual = (count - people * share) / (share * (1 - share))
    const weight = people / (share * (1 - share))
    g0 += residual * s0
    g1 += residual * s1
    i00 += weight * s0 * s0
    i01 += weight * s0 * s1
    i11 += weight * s1 * s1
  }
  const [d0, d1] = [i00 * (1 + damping) + 1e-12, i11 * (1 + damping) + 1e-12]
  const determinant = d0 * d1 - i01 * i01
  if (!(determinant > 0)) return [0, 0]
  const bounded = (step: number): number => Math.min(stepMax, Math.max(-stepMax, step))
  return [bounded((g0 * d1 - g1 * i01) / determinant), bounded((g1 * d0 - g0 * i01) / determinant)]
}
