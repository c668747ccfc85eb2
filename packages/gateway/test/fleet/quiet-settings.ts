/** The settings with which a drill begins: nothing bounds, fails or delays but what the drill adds. */
import { type Settings, second } from './settings.ts'

type QuietSettings = Pick<
  Settings,
  'trafficMs' | 'deduplicationMs' | 'rates' | 'queueMax' | 'waitingMax' | 'provider' | 'faults'
>

export function quietSettings(trafficMs: number): QuietSettings {
  return {
    trafficMs,
    deduplicationMs: 0,
    rates: [],
    queueMax: 10_000,
    waitingMax: 10_000,
    provider: {
      idempotent: false,
      failShare: 0,
      limitShare: 0,
      hangShare: 0,
      lostShare: 0,
      lateWriteShare: 0,
    },
    faults: {
      phases: [{ from: second, to: trafficMs }],
      delayShare: 0,
      stateDelayShare: 0,
      refusedShare: 0,
      commitRefusedShare: 0,
      lostShare: 0,
      stateRefusedShare: 0,
      kills: [],
      pauses: [],
      steps: [],
      stops: [],
      holds: [],
      isEndless: false,
    },
  }
}
