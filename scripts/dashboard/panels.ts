/**
 * The panels of the Grafana dashboard as data, in the order of reading: is it well, requests, what waits, providers,
 * machine, engines. scripts/dashboard/dashboard.ts makes deploy/grafana/sluice.json of them.
 */

export interface Panel {
  readonly row: 'Well' | 'Requests' | 'Waiting' | 'Providers' | 'Machine' | 'Engines'
  readonly title: string
  readonly expression: string
  /** A unit of Grafana: s, percentunit, ops, bytes. @defaultValue short */
  readonly unit?: 's' | 'percentunit' | 'ops' | 'bytes'
  /** Values from which a figure is yellow and red. */
  readonly yellow?: number
  readonly red?: number
  /** Series stand on one another. */
  readonly stacked?: true
}

const quantile = (labels: string, metric: string): string =>
  `histogram_quantile(0.99, sum by (${labels}) (rate(${metric}_bucket{$selection}[$__rate_interval])))`
const rate = (metric: string, selection = ''): string =>
  `rate(${metric}{$selection${selection === '' ? '' : `, ${selection}`}}[$__rate_interval])`

const requests = 'sluice_http_request_duration_seconds_count'

/** `$selection` becomes the variables of the dashboard that a metric has. */
export const panels: readonly Panel[] = [
  { row: 'Well', title: 'Unaccounted', expression: 'sluice_notifications_unaccounted{$selection}', red: 1 },
  {
    row: 'Well',
    title: 'Lateness p99',
    expression: quantile('le, channel', 'sluice_lateness_seconds'),
    unit: 's',
    yellow: 1,
    red: 10,
  },
  {
    row: 'Well',
    title: 'Oldest due',
    expression: 'max by (channel) (sluice_queue_oldest_due_seconds{$selection})',
    unit: 's',
    red: 60,
  },
  {
    row: 'Well',
    title: 'Dead letters',
    expression: 'max by (channel, cause) (sluice_dead_letters{$selection})',
  },
  {
    row: 'Requests',
    title: 'Accepted',
    expression: `sum by (channel) (${rate('sluice_accepted_total')})`,
    unit: 'ops',
  },
  {
    row: 'Requests',
    title: 'Errors',
    expression: `sum(${rate(requests, 'status="5xx"')}) / sum(${rate(requests)})`,
    unit: 'percentunit',
    red: 0.01,
  },
  {
    row: 'Requests',
    title: 'Acceptance p99',
    expression: quantile('le', 'sluice_accept_seconds'),
    unit: 's',
    yellow: 0.1,
  },
  {
    row: 'Requests',
    title: 'Refused by code',
    expression: `sum by (code) (${rate('sluice_refused_total')})`,
    unit: 'ops',
  },
  {
    row: 'Waiting',
    title: 'Waiting by reason',
    expression: 'sum by (reason) (max by (channel, reason) (sluice_waiting{$selection}))',
    stacked: true,
  },
  {
    row: 'Waiting',
    title: 'Due within the hour',
    expression: 'max(sluice_due_within{$selection, horizon="1h"})',
  },
  {
    row: 'Waiting',
    title: 'Suppressed',
    expression: `sum by (reason) (${rate('sluice_suppressed_total')})`,
    unit: 'ops',
  },
  {
    row: 'Waiting',
    title: 'Complaints: lower bound',
    expression: 'max by (category) (sluice_complaint_rate_bound_ratio{$selection})',
    unit: 'percentunit',
  },
  {
    row: 'Waiting',
    title: 'Complaints: departures left',
    expression: 'min by (category) (sluice_complaint_throttle_ratio{$selection})',
    unit: 'percentunit',
  },
  {
    row: 'Providers',
    title: 'Delivered',
    expression: `sum by (channel) (${rate('sluice_state_changes_total', 'status="delivered"')})`,
    unit: 'ops',
  },
  {
    row: 'Providers',
    title: 'Calls by outcome',
    expression: `sum by (provider, outcome) (${rate('sluice_provider_calls_total')})`,
    unit: 'ops',
  },
  {
    row: 'Providers',
    title: 'Call p99',
    expression: quantile('le, provider', 'sluice_provider_call_seconds'),
    unit: 's',
  },
  {
    row: 'Providers',
    title: 'Accounts out',
    expression: 'max by (channel, provider, status) (sluice_accounts{$selection, status!="healthy"})',
  },
  {
    row: 'Providers',
    title: 'Use of the pool',
    expression: `sum by (channel, provider) (${rate('sluice_provider_calls_total')}) / max by (channel, provider) (sluice_pool_rate_per_second{$selection})`,
    unit: 'percentunit',
  },
  { row: 'Providers', title: 'Retry budget', expression: 'sluice_retry_budget{$selection}' },
  { row: 'Machine', title: 'Commit p99', expression: quantile('le', 'sluice_commit_seconds'), unit: 's' },
  {
    row: 'Machine',
    title: 'Event loop p99',
    expression: quantile('le', 'nodejs_eventloop_delay_seconds'),
    unit: 's',
  },
  { row: 'Machine', title: 'Store', expression: 'sluice_store_bytes{$selection}', unit: 'bytes' },
  {
    row: 'Engines',
    title: 'RabbitMQ: messages',
    expression: `sum by (outcome) (${rate('sluice_queue_published_total')})`,
    unit: 'ops',
  },
  {
    row: 'Engines',
    title: 'RabbitMQ: repaired',
    expression: `sum(${rate('sluice_queue_repaired_total')})`,
    unit: 'ops',
  },
  {
    row: 'Engines',
    title: 'Delivery log: oldest waiting',
    expression: 'max(sluice_delivery_log_oldest_seconds{$selection})',
    unit: 's',
  },
]

/** Metrics without a channel: the variable `channel` does not narrow them. */
const withoutChannel =
  /^(?:sluice_(?:notifications_unaccounted|http_|accept_|refused_|commit_|store_|due_within|complaint_|queue_(?:published|repaired)_total|delivery_log_)|nodejs_)/

/** Writes the selection of each metric: by instance, and by channel where it has one. */
export const selected = (expression: string): string =>
  expression.replaceAll(/(\w+)\{\$selection/g, (_, metric: string) =>
    withoutChannel.test(metric)
      ? `${metric}{instance=~"$instance"`
      : `${metric}{instance=~"$instance", channel=~"$channel"`,
  )
