/** Metrics of the brokers: topics from which records are taken, and queues in front of the queue of this process. */
import type { OutgoingReport } from '../ports/outgoing.ts'
import type { IntakeReport } from '../reports.ts'
import type { Meter } from './meter.ts'

// ---- intakes: records that were taken from topics, and those that wait there

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

// ---- the broker in front of the queue

export function measureOutgoing(meter: Meter, report: () => OutgoingReport): void {
  meter.gauge(
    'sluice_queue_up',
    '1 while RabbitMQ takes messages of this gateway, 0 while it does not.',
    [],
    (set) => set([], report().isOpen ? 1 : 0),
  )
  meter.gauge(
    'sluice_queue_tenants',
    'Tenants to whose queues in RabbitMQ this gateway listens.',
    [],
    (set) => set([], report().tenants),
  )
  meter.counter(
    'sluice_queue_published_total',
    'Messages that RabbitMQ confirmed (queued), refused because the queue of their tenant was full (full), or did not answer (unconfirmed).',
    ['outcome'],
    (set) => {
      const { published, full, unconfirmed } = report()
      set(['queued'], published)
      set(['full'], full)
      set(['unconfirmed'], unconfirmed)
    },
  )
  meter.counter(
    'sluice_queue_taken_total',
    'Notifications that this gateway took from RabbitMQ.',
    [],
    (set) => set([], report().taken),
  )
  meter.counter(
    'sluice_queue_superfluous_total',
    'Messages whose notification had left another way, or was taken already.',
    [],
    (set) => set([], report().superfluous),
  )
  meter.counter(
    'sluice_queue_repaired_total',
    'Notifications that were given back to the record because RabbitMQ had no message of them any more, or was away.',
    [],
    (set) => set([], report().repaired),
  )
}
