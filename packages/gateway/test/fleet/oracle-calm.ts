/** Knows which spans of a run nothing disturbed: no phase of faults, pause, step of the clock, stop or death. */
import type { Settings } from './settings.ts'
import { second } from './settings.ts'
import type { World } from './world.ts'

export interface Calm {
  died(): void
  /** True if no process ended within the span. */
  isWithoutDeath(from: number, to: number): boolean
  /** True if nothing disturbed the span, nor the time before it in which accounts and retries recover. */
  isCalm(from: number, to: number): boolean
}

/** Blocks, cool-downs, retries and backlogs are over after this, ms. */
const recoveryMs = 20 * second

export function createCalm(world: World, { start, faults }: Settings): Calm {
  const deaths: number[] = []
  const spans = [
    ...faults.phases,
    ...faults.pauses.map(({ at, forMs }) => ({ from: at, to: at + forMs })),
    ...[...faults.steps.map(({ at }) => at), ...faults.stops].map((at) => ({ from: at, to: at + second })),
  ]
  const isWithoutDeath = (from: number, to: number): boolean => deaths.every((at) => at < from || at > to)
  return {
    died: () => void deaths.push(world.now()),
    isWithoutDeath,
    isCalm(from, to) {
      const [since, until] = [from - recoveryMs - start, to - start]
      const isUndisturbed = spans.every((span) => span.to < since || span.from > until)
      return isUndisturbed && isWithoutDeath(from - recoveryMs, to)
    },
  }
}
