/** Metrics of the broker in front of the queue. */
import type { OutgoingReport } from '../ports/outgoing.ts'
import type { Meter } from './meter.ts'

export function measureOutgoing(meter: Meter, report: () => OutgoingReport): void {
  meter.gauge(
    'sluice_queue_up',
    '1 while RabbitMQ takes messages of this gateway, 0 since it does not.',
    [],
    (set) => set([], report().awaySince === undefined ? 1 : 0),
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
