/**
 * Metrics in Prometheus' format. Counting is adding to a number; labels and text are made when they are scraped.
 * Every series of a known label is there from the start, since Prometheus cannot tell a new series from none. The
 * default path stays below 1,500 series; accounts and tenants, whose number nobody bounds, have paths of their own.
 */
import type { BacklogTotals } from '../backlog-cell.ts'
import { type Channel, channels, deadCauses, type Status, statuses } from '../model.ts'
import type { OutgoingReport } from '../ports/outgoing.ts'
import type { Queue } from '../ports.ts'
import type { IntakeReport } from '../reports.ts'
import type { Jobs, Ledger, PoolCounts, PoolLoad, PoolReport } from '../stages.ts'
import type { ApartMetrics } from './account-metrics.ts'
import { measureIntakes, measureOutgoing } from './broker-metrics.ts'
import { type ComplaintReports, measureComplaints } from './complaint-metrics.ts'
import { type FleetReport, measureFleet } from './fleet-metrics.ts'
import { createHttpMetrics, type HttpMetrics } from './http-metrics.ts'
import { createMeter, type Distribution, type Meter } from './meter.ts'
import { createNotificationMetrics, type NotificationMetricsOptions } from './notification-metrics.ts'
import { measurePools } from './pool-metrics.ts'
import { measureProcess } from './process-metrics.ts'
import {
  type DeliveryLogFigures,
  type FeedbackReport,
  measureDeliveryLog,
  measureFeedback,
  measureRetention,
  type RetentionReport,
} from './record-metrics.ts'
import type { StateHealth } from './state-health.ts'

export interface MetricsOptions extends Partial<NotificationMetricsOptions> {
  readonly ledger: Pick<Ledger, 'counts' | 'pruned' | 'subscribe'>
  readonly queue?: Pick<Queue, 'size' | 'oldestDue'>
  readonly jobs: Pick<Jobs, 'running'>
  /** Notifications on record in each state. @defaultValue those that the ledger counts */
  readonly onRecord?: Ledger['counts']
  /** Sums of the waiting notifications and dead letters. @defaultValue nothing is known of them */
  readonly backlog?: () => BacklogTotals
  readonly poolReports: () => readonly PoolReport[]
  readonly poolCounts?: () => readonly (PoolCounts & PoolLoad)[]
  readonly webSocket?: { report(): WebSocketReport }
  /** Items of digests that no open digest will ever close. */
  readonly orphans?: { count(): number }
  /** Rows of the store that could not be read, each counted once. */
  readonly damagedRows?: () => number
  /** Errors, by the part of the gateway that met them. */
  readonly errorCounts?: () => Iterable<readonly [component: string, count: number]>
  /** True while the server of the store can be read and written. Absent where the store is a file. */
  readonly storeUp?: () => boolean
  /** Sizes of the store's files and of its disk, bytes. */
  readonly disk?: () => DiskUse | undefined
  /** The questions to limiter state on a server. Absent where it is in the memory of the process. */
  readonly state?: StateHealth['counts']
  /** The process that keeps the limits while that server is away. @defaultValue nobody */
  /** Recipients whose limits were read from the record so far. */
  readonly limitReads?: (() => number) | undefined
  readonly limitsKeeper?: (() => (typeof limitsKeepers)[number] | undefined) | undefined
  /** Tenants that have no room left, by bound. @defaultValue none */
  readonly tenantsFull?: () => Readonly<Record<string, number>>
  /** The complaint guard. @defaultValue nothing is known of complaints */
  readonly complaints?: ComplaintReports
  /** Metrics on paths of their own. @defaultValue none */
  readonly apart?: ReadonlyMap<ApartPath, ApartMetrics>
  /** Absent where no delivery log is kept beside the store. */
  readonly deliveryLog?: (() => DeliveryLogFigures) | undefined
  /** Absent where this process serves its record alone. */
  readonly fleet?: (() => FleetReport) | undefined
  /** Absent without a broker. */
  readonly outgoing?: (() => OutgoingReport) | undefined
  /** @defaultValue no round of retention has been */
  readonly retention?: () => RetentionReport
  /** Counts of reported events. @defaultValue none was reported */
  readonly feedback?: () => FeedbackReport
  /** Topics whose records are taken. @defaultValue none */
  readonly intakes?: () => readonly IntakeReport[]
  readonly build?: () => { readonly version: string; readonly policy: string }
  readonly now?: () => number
}

interface WebSocketReport {
  readonly connections: number
  readonly waiting: number
  readonly published: object
  readonly passedOn: number
  readonly refused: Iterable<readonly [string | number, number]>
  readonly closed: Iterable<readonly [string | number, number]>
}

export interface DiskUse {
  readonly files: Readonly<Record<string, number>>
  readonly freeBytes: number
  readonly totalBytes: number
}

/** The paths of metrics that are off by default. */
export type ApartPath = '/metrics/accounts' | '/metrics/tenants'

export interface Metrics {
  readonly contentType: string
  readonly http: HttpMetrics
  /** Records how long a request took that accepted a notification, ms. */
  onAccepted(tookMs: number): void
  /** Starts to time a durable commit of some writes; the returned function ends it and returns the time, ms. */
  timeCommit(writes: number): () => number
  /** Records that the graceful shutdown has begun. */
  draining(): void
  text(): Promise<string>
  /** The texts of metrics on paths of their own. */
  readonly apart: ReadonlyMap<string, () => Promise<string>>
  close(): void
}

const noRetention = (): RetentionReport => ({ oldestAt: undefined, rounds: { done: 0, failed: 0 } })
const latencyBounds = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]
const sizeBounds = [1, 4, 16, 64, 256, 1024]

export function createMetrics(options: MetricsOptions): Metrics {
  const meter = createMeter()
  const http = createHttpMetrics(meter)
  const acceptSeconds = meter
    .histogram(
      'sluice_accept_seconds',
      'From a request that brings a notification to its answer, in which it is on disk.',
      [],
      latencyBounds,
    )
    .of()
  const commits = measureCommits(meter)
  const unsubscribe = measureNotifications(meter, options)
  measureWaiting(meter, options)
  if (options.backlog !== undefined) measureBacklog(meter, options.backlog, options.channels ?? channels)
  measurePools(meter, { pools: options.poolReports, poolCounts: options.poolCounts })
  if (options.webSocket !== undefined) measureWebSockets(meter, options.webSocket)
  measureStore(meter, options)
  if (options.complaints !== undefined) measureComplaints(meter, options.complaints)
  if (options.deliveryLog !== undefined)
    measureDeliveryLog(meter, options.deliveryLog, options.now ?? Date.now)
  if (options.outgoing !== undefined) measureOutgoing(meter, options.outgoing)
  if (options.fleet !== undefined) measureFleet(meter, options.fleet)
  measureRetention(meter, options.retention ?? noRetention, options.now ?? Date.now)
  if (options.intakes !== undefined) measureIntakes(meter, options.intakes)
  if (options.feedback !== undefined) measureFeedback(meter, options.feedback)
  let isDraining = 0
  meter.gauge('sluice_draining', '1 from the begin of a graceful shutdown on.', [], (set) =>
    set([], isDraining),
  )
  const { build } = options
  if (build !== undefined)
    meter.gauge('sluice_build_info', 'Versions in force: 1.', ['version', 'node', 'policy'], (set) => {
      const { version, policy } = build()
      set([version, process.version, policy], 1)
    })
  const apart = options.apart ?? new Map<ApartPath, ApartMetrics>()
  const unsubscribeApart =
    apart.size === 0
      ? undefined
      : options.ledger.subscribe((happening) => {
          for (const each of apart.values()) each.count(happening)
        })
  const stopProcess = measureProcess(meter)

  return {
    contentType: meter.contentType,
    http,
    onAccepted: (tookMs) => acceptSeconds.observe(tookMs / 1_000),
    timeCommit(writes) {
      const begunMs = performance.now()
      commits.size.observe(writes)
      return () => {
        const tookMs = performance.now() - begunMs
        commits.seconds.observe(tookMs / 1_000)
        return tookMs
      }
    },
    draining() {
      isDraining = 1
    },
    text: () => meter.text(),
    apart: new Map([...apart].map(([path, each]) => [path, () => each.text()])),
    close() {
      unsubscribe()
      unsubscribeApart?.()
      stopProcess()
    },
  }
}

function measureCommits(meter: Meter): { readonly seconds: Distribution; readonly size: Distribution } {
  return {
    seconds: meter.histogram('sluice_commit_seconds', 'Duration of durable commits.', [], latencyBounds).of(),
    size: meter.histogram('sluice_commit_size', 'Notifications written in one commit.', [], sizeBounds).of(),
  }
}

function measureNotifications(meter: Meter, options: MetricsOptions): () => void {
  const { ledger, onRecord = ledger.counts, pools = [], limits = () => [] } = options
  const sum = (counts: Readonly<Record<Status, number>>): number =>
    statuses.reduce((total, status) => total + counts[status], 0)
  const onRecordBefore = sum(ledger.counts())
  let accepted = 0
  const served: readonly Channel[] = options.channels ?? channels
  const notifications = createNotificationMetrics(meter, { channels: served, pools, limits })
  meter.gauge('sluice_notifications', 'Notifications on record in each state.', ['status'], (set) => {
    const counts = onRecord()
    for (const status of statuses) set([status], counts[status])
  })
  meter.gauge(
    'sluice_notifications_unaccounted',
    'Accepted notifications that are in no state, or collected by no open digest: always 0.',
    [],
    (set) => {
      const inNoState = onRecordBefore + accepted - ledger.pruned() - sum(ledger.counts())
      set([], inNoState + (options.orphans?.count() ?? 0))
    },
  )
  return ledger.subscribe((happening) => {
    if (happening.before === undefined && happening.events[0]?.status === 'accepted') accepted += 1
    notifications.count(happening)
  })
}

function measureWaiting(meter: Meter, { queue, jobs, tenantsFull, now = Date.now }: MetricsOptions): void {
  meter.gauge(
    'sluice_tenants_full',
    'Tenants that have no room left for what waits, by the bound that they reached.',
    ['bound'],
    (set) => {
      for (const [bound, count] of Object.entries(tenantsFull?.() ?? { queue: 0, waiting: 0, bytes: 0 }))
        set([bound], count)
    },
  )
  meter.gauge('sluice_queue_size', 'Notifications that are due and have not left.', ['channel'], (set) => {
    if (queue !== undefined) for (const channel of channels) set([channel], queue.size(channel))
  })
  meter.gauge(
    'sluice_queue_oldest_due_seconds',
    'For how long the oldest notification in the queue has been due; 0 where there is none.',
    ['channel'],
    (set) => {
      if (queue === undefined) return
      const at = now()
      for (const channel of channels)
        set([channel], Math.max(0, at - (queue.oldestDue(channel) ?? at)) / 1_000)
    },
  )
  meter.gauge('sluice_jobs_running', 'Batches in the background that are not done.', [], (set) =>
    set([], jobs.running()),
  )
}

/** Reasons for which notifications wait: their series are there from the start. */
const delayReasons = [
  'tenant_limit',
  'module_limit',
  'recipient_limit',
  'quiet_hours',
  'legal_hours',
  'held',
  'send_at',
  'digest',
  'provider_capacity',
  'retry',
  'state_unavailable',
  'complaint_guard',
]

function measureBacklog(meter: Meter, totals: () => BacklogTotals, served: readonly Channel[]): void {
  const gauge = (
    name: string,
    help: string,
    label: string,
    words: readonly string[],
    countsOf: (totals: BacklogTotals) => BacklogTotals['waiting'],
  ): void =>
    meter.gauge(name, help, ['channel', label], (set) => {
      for (const channel of served) for (const word of words) set([channel, word], 0)
      for (const { channel, reason, count } of countsOf(totals())) set([channel, reason], count)
    })
  gauge(
    'sluice_waiting',
    'Notifications that wait, by reason; provider_capacity are those that are due and decided.',
    'reason',
    delayReasons,
    ({ waiting }) => waiting,
  )
  gauge('sluice_dead_letters', 'Dead letters on record now.', 'cause', deadCauses, ({ dead }) => dead)
  meter.gauge(
    'sluice_due_within',
    'Notifications whose instant comes within this time.',
    ['horizon'],
    (set) => {
      for (const [horizon, count] of Object.entries(totals().dueWithin)) set([horizon], count)
    },
  )
}

const limitsKeepers = ['this process', 'another process'] as const

function measureState(
  meter: Meter,
  counts: StateHealth['counts'],
  keeper: MetricsOptions['limitsKeeper'],
  reads: MetricsOptions['limitReads'],
): void {
  meter.gauge(
    'sluice_state_up',
    'Whether the server of the limits answers: 1, or 0 while it is away.',
    [],
    (set) => set([], counts().awaySince === undefined ? 1 : 0),
  )
  meter.counter(
    'sluice_state_unanswered_total',
    'Questions to the server of the limits that had no answer in time.',
    [],
    (set) => set([], counts().unanswered),
  )
  meter.counter(
    'sluice_limits_read_total',
    'Recipients whose limits were read from the record, because their server did not know them.',
    [],
    (set) => set([], reads?.() ?? 0),
  )
  meter.gauge(
    'sluice_limits_kept',
    'Who keeps the limits while their server is away: 1 for that process, and 0 for all while the server keeps them.',
    ['by'],
    (set) => {
      for (const each of limitsKeepers) set([each.replace(' ', '_')], keeper?.() === each ? 1 : 0)
    },
  )
}

function measureStore(
  meter: Meter,
  { damagedRows, disk, errorCounts, state, limitsKeeper, limitReads, storeUp }: MetricsOptions,
): void {
  if (storeUp !== undefined)
    meter.gauge(
      'sluice_store_up',
      'Whether the server of the store can be read and written: 1, or 0 while it is away.',
      [],
      (set) => set([], storeUp() ? 1 : 0),
    )
  if (state !== undefined) measureState(meter, state, limitsKeeper, limitReads)
  meter.counter(
    'sluice_damaged_rows_total',
    'Rows of the store that could not be read and are left out, each counted once.',
    [],
    (set) => set([], damagedRows?.() ?? 0),
  )
  meter.counter(
    'sluice_errors_total',
    'Errors, by the part of the gateway that met them.',
    ['component'],
    (set) => {
      for (const [component, count] of errorCounts?.() ?? []) set([component], count)
    },
  )
  if (disk === undefined) return
  meter.gauge('sluice_store_bytes', 'Size of the store on disk, by file.', ['file'], (set) => {
    for (const [file, bytes] of Object.entries(disk()?.files ?? {})) set([file], bytes)
  })
  meter.gauge('sluice_store_free_bytes', 'Free space on the disk of the store.', [], (set) => {
    const use = disk()
    if (use !== undefined) set([], use.freeBytes)
  })
}

function measureWebSockets(meter: Meter, hub: { report(): WebSocketReport }): void {
  const name = (what: string): string => `sluice_websocket_${what}`
  meter.gauge(name('connections'), 'Open WebSockets.', [], (set) => set([], hub.report().connections))
  meter.gauge(name('waiting'), 'Published messages that wait for the rate of their tenant.', [], (set) =>
    set([], hub.report().waiting),
  )
  meter.counter(
    name('published_total'),
    'Published messages, by what became of them.',
    ['outcome'],
    (set) => {
      for (const [outcome, count] of Object.entries(hub.report().published)) set([outcome], count as number)
    },
  )
  meter.counter(
    name('passed_on_total'),
    'Messages for subscribers, each as often as it was passed on.',
    [],
    (set) => set([], hub.report().passedOn),
  )
  meter.counter(name('refused_total'), 'Messages and upgrades that were refused.', ['code'], (set) => {
    for (const [code, count] of hub.report().refused) set([`${code}`], count)
  })
  meter.counter(name('closed_total'), 'Connections that have ended, by close code.', ['code'], (set) => {
    for (const [code, count] of hub.report().closed) set([`${code}`], count)
  })
}
