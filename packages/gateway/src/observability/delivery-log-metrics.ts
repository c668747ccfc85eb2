/** Metrics of the delivery log: what waits for it, since when, and what it got. */
import type { Meter } from './meter.ts'

/** The figures of the delivery log at this process. */
export interface DeliveryLogFigures {
  readonly waiting: number
  /** Epoch ms. */
  readonly oldestAt: number | undefined
  readonly written: number
  readonly lost: number
  readonly awaySince: number | undefined
}

export function measureDeliveryLog(meter: Meter, report: () => DeliveryLogFigures, now: () => number): void {
  meter.gauge(
    'sluice_delivery_log_up',
    '1 while the delivery log takes what is written, 0 since it does not.',
    [],
    (set) => set([], report().awaySince === undefined ? 1 : 0),
  )
  meter.gauge(
    'sluice_delivery_log_waiting',
    'Changes of state in the outbox that the delivery log has not got yet; 0 at a gateway that does not write it.',
    [],
    (set) => set([], report().waiting),
  )
  meter.gauge(
    'sluice_delivery_log_oldest_seconds',
    'For how long the oldest change of state in the outbox waits; 0 where none does.',
    [],
    (set) => {
      const at = now()
      set([], Math.max(0, at - (report().oldestAt ?? at)) / 1_000)
    },
  )
  meter.counter(
    'sluice_delivery_log_written_total',
    'Changes of state that this gateway wrote to the delivery log.',
    [],
    (set) => set([], report().written),
  )
  meter.counter(
    'sluice_delivery_log_lost_total',
    'Changes of state that the delivery log will never get, because too many waited or their row is damaged.',
    [],
    (set) => set([], report().lost),
  )
}
