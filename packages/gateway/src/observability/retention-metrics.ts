/** Metrics of retention: how old the record is, and what became of the rounds in which it is shortened. */
import type { Meter } from './meter.ts'

/** The figures of retention in this process. */
export interface RetentionReport {
  /** The instant at which the oldest notification on record was accepted, epoch ms; undefined while there is none. */
  readonly oldestAt: number | undefined
  readonly rounds: Readonly<Record<'done' | 'failed', number>>
}

export function measureRetention(meter: Meter, report: () => RetentionReport, now: () => number): void {
  meter.gauge(
    'sluice_retention_oldest_seconds',
    'For how long the oldest notification has been on record, as of the last round of retention; 0 where there is none.',
    [],
    (set) => {
      const at = now()
      set([], Math.max(0, at - (report().oldestAt ?? at)) / 1_000)
    },
  )
  meter.counter(
    'sluice_retention_rounds_total',
    'Rounds in which old answers and notifications were forgotten, every ten minutes, by outcome.',
    ['outcome'],
    (set) => {
      for (const [outcome, count] of Object.entries(report().rounds)) set([outcome], count)
    },
  )
}
