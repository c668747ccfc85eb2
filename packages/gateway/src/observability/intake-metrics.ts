/** Metrics of intakes: records that were taken from topics, and those that wait there. */
import type { IntakeReport } from '../reports.ts'
import type { Meter } from './meter.ts'

export function measureIntakes(meter: Meter, reports: () => readonly IntakeReport[]): void {
  meter.counter(
    'sluice_intake_records_total',
    'Records that were taken from topics, by outcome.',
    ['topic', 'outcome'],
    (set) => {
      for (const { topic, counts } of reports())
        for (const [outcome, count] of Object.entries(counts)) set([topic, outcome], count)
    },
  )
  meter.gauge(
    'sluice_intake_up',
    'Whether the brokers of a topic answer: 1, or 0 while they are away.',
    ['topic'],
    (set) => {
      for (const { topic, awaySince } of reports()) set([topic], awaySince === undefined ? 1 : 0)
    },
  )
  const gauge = (name: string, help: string, of: (report: IntakeReport) => number): void =>
    meter.gauge(name, help, ['topic'], (set) => {
      for (const report of reports()) set([report.topic], of(report))
    })
  gauge('sluice_intake_lag', 'Records that wait in the partitions of this process.', ({ partitions }) =>
    partitions.reduce((sum, { lag }) => sum + lag, 0),
  )
  gauge(
    'sluice_intake_partitions',
    'Partitions that this process has.',
    ({ partitions }) => partitions.length,
  )
  gauge(
    'sluice_intake_partitions_paused',
    'Partitions with a record that waits for its tenant or for the pools of its channel.',
    ({ partitions }) => partitions.filter(({ isPaused }) => isPaused).length,
  )
}
