/** Metrics of feedback: events that were reported of sent notifications. */
import type { Meter } from './meter.ts'

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
