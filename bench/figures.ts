/**
 * The result of a benchmark: comparisons. A comparison holds one figure a round of ours and one of what it was
 * measured against, taken right after each other; the machine is noisy, so the ratio is that of each round, and the
 * median over the rounds counts. `save` keeps them as JSON, from which page.ts writes the page.
 */
import { mkdirSync, writeFileSync } from 'node:fs'
import { availableParallelism, loadavg } from 'node:os'
import { join } from 'node:path'

export interface Comparison {
  readonly what: string
  readonly unit: string
  readonly ours: readonly number[]
  /** Absent: the figure is held against the goal itself. */
  readonly against?: { readonly name: string; readonly figures: readonly number[] }
  /** The goal of the ratio, or of the figure where it has no counterpart. Absent: reported, without a goal. */
  readonly goal?: { readonly min: number } | { readonly max: number }
}

export interface Result {
  readonly name: string
  readonly title: string
  readonly date: string
  readonly node: string
  readonly cpus: number
  /** Processes that wanted a core when it began: what the neighbours were doing. */
  readonly load: number
  readonly rounds: number
  readonly comparisons: readonly Comparison[]
  /** The conditions on which the figures depend. */
  readonly notes: readonly string[]
  /** Further measurements, for pages of the benchmark's own. */
  readonly detail?: unknown
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2
}

export function percentile(sorted: ArrayLike<number>, share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN
}

/** The median of the rounds' own ratios. */
export function ratioOf({ ours, against }: Comparison): number | undefined {
  if (against === undefined) return undefined
  return median(ours.map((figure, round) => figure / against.figures[round]!))
}

export function meetsGoal(comparison: Comparison): boolean | undefined {
  const { goal, ours } = comparison
  if (goal === undefined) return undefined
  const reached = ratioOf(comparison) ?? median(ours)
  return 'min' in goal ? reached >= goal.min : reached <= goal.max
}

const resultsFolder = join(import.meta.dirname, 'results')
const loadAtStart = loadavg()[0]!

export function save(found: Omit<Result, 'date' | 'node' | 'cpus' | 'load'>): void {
  const result: Result = {
    ...found,
    date: new Date().toISOString(),
    node: process.version,
    cpus: availableParallelism(),
    load: Math.round(loadAtStart * 10) / 10,
  }
  mkdirSync(resultsFolder, { recursive: true })
  const rounded = (_key: string, value: unknown): unknown =>
    typeof value === 'number' && !Number.isInteger(value) ? Number(value.toPrecision(5)) : value
  writeFileSync(join(resultsFolder, `${found.name}.json`), `${JSON.stringify(result, rounded, 2)}\n`)
}
