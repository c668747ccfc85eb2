/** Knows which spans of a run nothing disturbed: no phase of faults, pause, step of the clock, stop or death. */
import type { Settings } from './settings.ts'
import { second } from './settings.ts'
import type { World } from './world.ts'

export interface Calm {
  died(): void
  /** A pause that nobody planned by its instant begins. */
  disturb(forMs: number): void
  /** True if nothing but deaths disturbed the span. */
  isUndisturbed(from: number, to: number): boolean
  /** True if no process ended within the span. */
  isWithoutDeath(from: number, to: number): boolean
  /** True if nothing disturbed the span, nor the time before it in which accounts and retries recover. */
  isCalm(from: number, to: number): boolean
}

/** Blocks, cool-downs, retries and backlogs are over after this, ms. */
const recoveryMs = 20 * second

/** A span, ms since the start of the run. */
export interface Span {
  readonly from: number
  readonly to: number
}

/** @param engines spans in which an engine is away, or was a moment ago */
export function createCalm(
  world: World,
  { start, faults, provider }: Settings,
  engines: readonly Span[] = [],
): Calm {
  const deaths: number[] = []
  const spans: Span[] = [
    ...faults.phases,
    ...engines,
    ...(provider.outages ?? []),
    ...faults.pauses.map(({ at, forMs }) => ({ from: at, to: at + forMs })),
    ...[...faults.steps.map(({ at }) => at), ...faults.stops].map((at) => ({ from: at, to: at + second })),
  ]
  const isWithoutDeath = (from: number, to: number): boolean => deaths.every((at) => at < from || at > to)
  return {
    died: () => void deaths.push(world.now()),
    disturb: (forMs) => void spans.push({ from: world.elapsed(), to: world.elapsed() + forMs }),
    isUndisturbed: (from, to) => spans.every((span) => span.to < from - start || span.from > to - start),
    isWithoutDeath,
    isCalm(from, to) {
      const [since, until] = [from - recoveryMs - start, to - start]
      const isUndisturbed = spans.every((span) => span.to < since || span.from > until)
      return isUndisturbed && isWithoutDeath(from - recoveryMs, to)
    },
  }
}
