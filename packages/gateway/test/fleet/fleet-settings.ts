/**
 * Makes the settings of a run of several gateways from its seed: those of one, and what happens to the engines that they
 * share. A kill, a pause or a stop meets one of them.
 */
import { type Settings, second, settingsOf } from './settings.ts'
import { drawOf } from './world.ts'

interface Timed {
  readonly at: number
}

export interface FleetSettings {
  readonly settings: Settings
  readonly gateways: number
  readonly engines: {
    /** The server of limits loses everything and goes on. */
    readonly flushes: readonly Timed[]
    readonly restarts: readonly (Timed & { readonly downMs: number })[]
    readonly failOvers: readonly (Timed & { readonly lostMs: number; readonly deposedMs: number })[]
    /** The record crashes and is away for so long. */
    readonly crashes: readonly (Timed & { readonly downMs: number })[]
  }
}

export function fleetSettingsOf(seed: number, gateways: number): FleetSettings {
  const alone = settingsOf(seed)
  const draw = (key: string): number => drawOf(seed, `fleet ${key}`)
  const between = (key: string, least: number, most: number): number =>
    least + Math.floor(draw(key) * (most - least + 1))
  const isCalm = alone.faults.phases.length === 0
  function times<T>(key: string, share: number, most: number, make: (name: string) => T): (T & Timed)[] {
    if (isCalm || draw(`${key} at all`) >= share) return []
    return Array.from({ length: between(key, 1, most) }, (_, index) => ({
      at: between(`${key} ${index} at`, 2 * second, 55 * second),
      ...make(`${key} ${index}`),
    }))
  }
  const { changedLimits: _, subjectsMax: _subjects, faults, ...rest } = alone
  const settings: Settings = {
    ...rest,
    faults: {
      ...faults,
      // The time of a fleet is that of machines whose clocks are kept.
      steps: [],
      // Some pauses last until the others have declared the process dead.
      pauses: [
        ...faults.pauses,
        ...times('pause', 0.4, 2, (name) => ({ forMs: between(`${name} for`, 5, 25) * second })),
      ],
    },
  }
  return {
    settings,
    gateways,
    engines: {
      flushes: times('flush', 0.5, 4, () => ({})),
      restarts: times('restart', 0.25, 2, (name) => ({ downMs: between(`${name} down`, 50, 5_000) })),
      failOvers: times('fail over', 0.35, 2, (name) => ({
        lostMs: between(`${name} lost`, 1, 2_000),
        deposedMs: between(`${name} deposed`, 1, 8_000),
      })),
      crashes: times('crash', 0.35, 2, (name) => ({ downMs: between(`${name} down`, 100, 4_000) })),
    },
  }
}
