/** Metrics of each account, on a path of their own: their number is the operator's to know. */
import type { Happening, PoolReport } from '../stages.ts'
import { createMeter, Tally } from './meter.ts'
import { callOutcome } from './notification-metrics.ts'

export interface AccountMetricsOptions {
  readonly pools: () => readonly PoolReport[]
  /** Calls at most in the narrowest window of an account's rate; undefined for an unlimited one. */
  readonly maxOf: (channel: string, account: string) => number | undefined
  /** The lead of the wall clock over the gateway's own time, ms. */
  readonly aheadMs: () => number
}

/** Metrics that are served on a path of their own. */
export interface ApartMetrics {
  count(happening: Happening): void
  text(): Promise<string>
}

export function createAccountMetrics({ pools, maxOf, aheadMs }: AccountMetricsOptions): ApartMetrics {
  const meter = createMeter()
  const calls = new Tally()
  const labels = ['channel', 'account']
  meter.counter(
    'sluice_account_calls_total',
    'Calls of an account that have ended, by outcome.',
    [...labels, 'outcome'],
    calls.each,
  )
  meter.gauge(
    'sluice_account_out_until_timestamp_seconds',
    'Until when an account is out, in seconds since 1970; 0 while it is in.',
    labels,
    (set) => {
      for (const { channel, accounts } of pools())
        for (const { id, outUntil } of accounts)
          set([channel, id], outUntil === null ? 0 : (outUntil + aheadMs()) / 1_000)
    },
  )
  meter.gauge(
    'sluice_account_used_ratio',
    'Share of the narrowest window of an account that is used now; absent where it is unlimited.',
    labels,
    (set) => {
      for (const { channel, accounts } of pools()) {
        for (const { id, used } of accounts) {
          const max = maxOf(channel, id)
          if (max !== undefined) set([channel, id], used / max)
        }
      }
    },
  )
  return {
    count({ notification, events }) {
      for (const event of events) {
        const outcome = callOutcome(event)
        if (outcome !== undefined && event.account !== undefined)
          calls.add(notification.channel, event.account, outcome)
      }
    },
    text: () => meter.text(),
  }
}
