/**
 * The sentences in which advice says what it does not know: the reasons for giving none, and the warnings beside one.
 * Pure.
 */
import type { Advice } from './advice.ts'
import type { ComplaintLimit } from './complaints.ts'
import type { Interval } from './distributions.ts'
import type { Model } from './model.ts'
import type { Observation } from './observations.ts'

/** Different frequencies that advice needs at least, each with so many recipients. */
const frequenciesMin = 4
export const peopleMin = 200

/** A fit is called rejected below this probability. */
const rejectedBelow = 0.01

/** Says why the data allow no advice, and what is missing; empty where they allow it. */
export function missingData(groups: readonly Observation[]): string[] {
  const enough = groups.filter(({ people }) => people >= peopleMin)
  const named = (list: readonly Observation[]): string =>
    list.map(({ frequency, people }) => `${frequency} a week (${people})`).join(', ')
  if (enough.length < frequenciesMin) {
    const few = groups.filter(({ people }) => people < peopleMin)
    const tooFew = few.length === 0 ? '' : `; too few people at ${named(few)}`
    const have =
      enough.length === 0
        ? 'none has that'
        : `${enough.length} of them ${enough.length === 1 ? 'is' : 'are'} there: ${named(enough)}`
    return [
      `advice needs ${frequenciesMin} different frequencies with ${peopleMin} people each; ${have}${tooFew}`,
    ]
  }
  return [
    ...never(groups, 'engaged', 'the benefit of a message'),
    ...never(groups, 'churned', 'the cost of a message'),
  ]
}

function never(groups: readonly Observation[], name: 'engaged' | 'churned', unknown: string): string[] {
  return groups.some((group) => group[name] > 0)
    ? []
    : [`nobody ${name} at any frequency: ${unknown} is unknown`]
}

export function unboundedText([, highest]: Interval): string {
  return `up to ten times the highest observed frequency (${highest} a week) a message more brings more than it costs: churn hardly rises in these data. Observe higher frequencies, or a longer time`
}

/** The reason where no observed frequency is known to stay below the limit of complaints. */
export function tooManyComplaints({ limit, points }: ComplaintLimit): string {
  const best = points.reduce((least, point) => (point.high < least.high ? point : least))
  const rate = best.complaints / best.delivered
  const few = rate < limit ? ', which are too few to tell' : ''
  return `at no observed frequency is the rate of complaints known to stay below ${percent(limit)}: the nearest is ${best.frequency} a week with ${best.complaints} of ${best.delivered} delivered${few} (at most ${percent(best.high)}, by Wilson's bound of 95 %)`
}

interface Found extends Omit<Advice, 'warnings'> {
  readonly model: Model
  readonly highest: number
}

export function warningsOf(found: Found): string[] {
  return [
    ...rangeWarnings(found),
    ...fitWarnings(found),
    ...complaintWarnings(found),
    ...segmentWarnings(found),
  ]
}

function rangeWarnings({ frequency, interval, observed: [lowest, most], highest }: Found): string[] {
  const warnings: string[] = []
  if (frequency > most)
    warnings.push(
      `extrapolated: ${shown(frequency)} a week lies above all that was observed (${lowest} to ${most}); try ${Math.floor(most) + 1} in a test first`,
    )
  else if (frequency < lowest)
    warnings.push(
      `extrapolated: ${shown(frequency)} a week lies below all that was observed (${lowest} to ${most}); try ${lowest > 1 ? Math.ceil(lowest) - 1 : 'less'} in a test first`,
    )
  if (interval[1] >= highest * 0.999)
    warnings.push(
      `the interval has no upper end in these data: in some draws of the bootstrap churn does not rise with the frequency`,
    )
  return warnings
}

function fitWarnings({ engagement, churn, model }: Found): string[] {
  const rejected = (name: string, form: string, pValue: number): string[] =>
    pValue < rejectedBelow
      ? [
          `the fit of ${name} is rejected (p ${pValue < 0.0001 ? '< 0.0001' : `= ${pValue.toPrecision(1)}`}): ${form} does not describe these data`,
        ]
      : []
  const bounds: string[] = []
  if (model.engagement.bound === 'min')
    bounds.push('engagement rises straight with the frequency: no saturation is seen in these data')
  if (model.engagement.bound === 'max')
    bounds.push('engagement does not rise with the frequency in these data')
  if (model.churn.bound === 'min') bounds.push('churn does not rise with the frequency in these data')
  return [
    ...rejected('engagement', 'a·ln(1+b·f)', engagement.pValue),
    ...rejected('churn', 'c·e^(d·f)', churn.pValue),
    ...bounds,
  ]
}

function complaintWarnings({ complaints, frequency, observed }: Found): string[] {
  if (complaints === undefined) return []
  const { points, limit } = complaints
  const warnings = points
    .filter((point) => point.low > limit && point.frequency < frequency)
    .map(
      ({ frequency: at, complaints: some, delivered }) =>
        `at ${at} a week the rate of complaints is above ${percent(limit)} (${some} of ${delivered}), although it is below at a higher frequency: the groups differ in more than their frequency`,
    )
  if (frequency > observed[1]) warnings.push('complaints were not observed at so high a frequency')
  return warnings
}

function segmentWarnings({ segments }: Found): string[] {
  const known = segments.filter((segment) => segment.interval !== undefined)
  const apart = known.some((one) => known.some((other) => one.interval![1] < other.interval![0]))
  const text = known
    .map(
      ({ name, frequency, interval }) =>
        `${name || 'without a segment'} ${shown(frequency!)} (${shown(interval![0])}–${shown(interval![1])})`,
    )
    .join(', ')
  const unjudged = segments.filter((segment) => segment.interval === undefined)
  return [
    ...(apart ? [`segments disagree: ${text}; give each its own limit`] : []),
    ...(unjudged.length === 0
      ? []
      : [
          `too little data to judge alone: ${unjudged.map(({ name }) => name || 'without a segment').join(', ')}`,
        ]),
  ]
}

/** Formats a frequency: `3.4`, `0.42`, `12`. */
export function shown(frequency: number): string {
  if (frequency >= 9.95) return String(Math.round(frequency))
  return String(Number(frequency >= 0.95 ? frequency.toFixed(1) : frequency.toPrecision(2)))
}

/** Formats a share: `0.1 %`, `12 %`. */
export function percent(share: number): string {
  const value = share * 100
  return `${Number(value.toPrecision(value >= 10 ? 3 : 2))} %`
}

/** Formats a number with three digits: `0.0213`, `5.43`. */
export function significant(value: number): string {
  return value !== 0 && Math.abs(value) < 0.0001
    ? value.toExponential(1)
    : String(Number(value.toPrecision(3)))
}
