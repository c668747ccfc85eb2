/** Metrics of what is recorded beside notifications: feedback, the delivery log, and the retention of all of it. */
import type { Meter } from './meter.ts'

// ---- feedback
//
// Metrics of feedback: events that were reported of sent notifications.

/** The figures of feedback in this process. */
export interface FeedbackReport {
  /** New events by type; one that is reported again does not count. */
  readonly events: Readonly<Record<string, number>>
  /** Reports whose notification was not found within ten minutes. */
  readonly unknown: number
  /** Reports that wait for their notification. */
  readonly waiting: number
  /** Calls of webhooks that were refused, by form and reason. */
  readonly refusals: Iterable<readonly [form: string, reason: string, count: number]>
}

export function measureFeedback(meter: Meter, report: () => FeedbackReport): void {
  meter.counter(
    'sluice_feedback_events_total',
    'Events that were reported of sent notifications, each once, by type.',
    ['type'],
    (set) => {
      for (const [type, count] of Object.entries(report().events)) set([type], count)
    },
  )
  meter.counter(
    'sluice_feedback_unknown_total',
    'Reports of events whose notification was not found within ten minutes.',
    [],
    (set) => set([], report().unknown),
  )
  meter.gauge(
    'sluice_feedback_waiting',
    'Reports of events that wait for their notification to be known.',
    [],
    (set) => set([], report().waiting),
  )
  meter.counter(
    'sluice_feedback_refused_total',
    'Calls of webhooks that were not authentic, too old, repeated or of a foreign topic, by form and reason.',
    ['form', 'reason'],
    (set) => {
      for (const [form, reason, count] of report().refusals) set([form, reason], count)
    },
  )
}

// ---- the delivery log
//
// Metrics of the delivery log: what waits for it, since when, and what it got.

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

// ---- retention
//
// Metrics of retention: how old the record is, and what became of the rounds in which it is shortened.

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
