/**
 * Metrics in Prometheus' format. Counting is adding to a number; labels and text are made when they are
 * scraped. The labels are channels, states, reasons and providers, never tenants or recipients: their number is
 * bounded.
 */
import { Counter, Gauge, Histogram, Registry } from 'prom-client'
import type { Channel, Status, TimelineEvent } from '../model.ts'
import { channels, priorities, statuses } from '../model.ts'
import type { Queue } from '../ports.ts'
import type { Happening, Jobs, Ledger, PoolCounts, PoolReport } from '../stages.ts'
import type { WebSocketHub } from './websocket/hub.ts'

export interface MetricsOptions {
  readonly ledger: Pick<Ledger, 'counts' | 'pruned' | 'subscribe'>
  readonly queue?: Pick<Queue, 'size'>
  readonly jobs: Pick<Jobs, 'running'>
  readonly pools: () => readonly PoolReport[]
  readonly webSocket?: { readonly hub: Pick<WebSocketHub, 'report'> }
  /** Items of digests that no open digest will ever close. */
  readonly orphans?: { count(): number }
  /** Rows of the store that could not be read, each counted once. */
  readonly damagedRows?: () => number
  readonly poolCounts?: () => readonly PoolCounts[]
}

export interface Metrics {
  readonly contentType: string
  /** Records how long a request took that accepted a notification, ms. */
  onAccepted(tookMs: number): void
  /** Starts to time a durable commit; the returned function ends it. */
  timeCommit(): () => void
  text(): Promise<string>
  close(): void
}

/** Interval of a timer, ms, whose lateness measures the delay of the event loop. */
const loopProbeMs = 20

const latencyBuckets = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]

export function createMetrics(options: MetricsOptions): Metrics {
  const { ledger } = options
  const register = new Registry()
  const registers = [register]
  const sum = (counts: Readonly<Record<Status, number>>): number =>
    statuses.reduce((total, status) => total + counts[status], 0)

  const onRecordBefore = sum(ledger.counts())
  let accepted = 0
  const acceptances = new Tally()
  const changes = new Tally()
  const calls = new Tally()
  const suppressions = new Tally()
  const deaths = new Tally()

  const unsubscribe = ledger.subscribe(({ notification, events }: Happening) => {
    const { channel, priority } = notification
    for (const event of events) {
      changes.add(channel, event.status)
      if (event.status === 'accepted') {
        accepted += 1
        acceptances.add(channel, priority)
      } else if (event.status === 'suppressed') suppressions.add(channel, event.reason ?? 'none')
      else if (event.status === 'dead') deaths.add(channel, event.reason ?? 'none')
      const outcome = callOutcome(event)
      if (outcome !== undefined) calls.add(channel, event.provider ?? 'none', outcome)
    }
  })

  const acceptSeconds = new Histogram({
    name: 'sluice_accept_seconds',
    help: 'From a request that brings a notification to its answer, in which it is on disk.',
    buckets: latencyBuckets,
    registers,
  })
  const commitSeconds = new Histogram({
    name: 'sluice_commit_seconds',
    help: 'One durable commit.',
    buckets: latencyBuckets,
    registers,
  })
  gauge('sluice_notifications', 'Notifications in each state.', ['status'], (set) => {
    const counts = ledger.counts()
    for (const status of statuses) set([status], counts[status])
  })
  const unaccounted = 'Accepted ones that are in no state, or collected by no open digest: always 0.'
  gauge('sluice_notifications_unaccounted', unaccounted, [], (set) => {
    const inNoState = onRecordBefore + accepted - ledger.pruned() - sum(ledger.counts())
    set([], inNoState + (options.orphans?.count() ?? 0))
  })
  counter(
    'sluice_accepted_total',
    'Accepted notifications since the process began.',
    ['channel', 'priority'],
    (set) => {
      for (const channel of channels) for (const priority of priorities) set([channel, priority], 0)
      acceptances.each(set)
    },
  )
  counter('sluice_state_changes_total', 'Changes of state.', ['channel', 'status'], changes.each)
  counter('sluice_suppressed_total', 'Suppressed ones.', ['channel', 'reason'], suppressions.each)
  counter(
    'sluice_provider_calls_total',
    'Settled calls to providers.',
    ['channel', 'provider', 'outcome'],
    calls.each,
  )
  counter('sluice_dead_letters_total', 'Dead letters.', ['channel', 'cause'], deaths.each)
  gauge('sluice_queue_size', 'Ready to leave.', ['channel'], (set) => {
    if (options.queue !== undefined)
      for (const channel of channels) set([channel], options.queue.size(channel))
  })
  gauge('sluice_jobs_running', 'Batches in the background that are not done.', [], (set) =>
    set([], options.jobs.running()),
  )
  gauge('sluice_accounts', 'Provider accounts.', ['channel', 'provider', 'status'], (set) => {
    for (const { channel, provider, accounts } of options.pools()) {
      const healths = Map.groupBy(accounts, (account) => account.status)
      for (const [health, those] of healths) set([channel, provider, health], those.length)
    }
  })
  if (options.webSocket !== undefined) webSocketMetrics(options.webSocket.hub)
  counter(
    'sluice_damaged_rows_total',
    'Rows of the store that could not be read and are left out, each counted once.',
    [],
    (set) => set([], options.damagedRows?.() ?? 0),
  )
  const poolLabels = ['channel', 'provider']
  counter(
    'sluice_account_changes_total',
    'Accounts that were blocked, whose breaker opened or closed, or whose calls at once changed.',
    [...poolLabels, 'change'],
    (set) => {
      for (const { channel, provider, changes } of options.poolCounts?.() ?? [])
        for (const [change, count] of Object.entries(changes)) set([channel, provider, change], count)
    },
  )
  gauge('sluice_retry_budget', 'Repetitions that a pool may make now.', poolLabels, (set) => {
    for (const { channel, provider, retryBudget } of options.poolCounts?.() ?? [])
      set([channel, provider], retryBudget)
  })
  const loopProbe = processMetrics()

  type Set = (labels: readonly string[], value: number) => void

  function gauge(name: string, help: string, labelNames: readonly string[], fill: (set: Set) => void): void {
    new Gauge({
      name,
      help,
      labelNames: [...labelNames],
      registers,
      collect() {
        this.reset()
        fill((labels, value) => this.set(labelled(labelNames, labels), value))
      },
    })
  }

  function counter(
    name: string,
    help: string,
    labelNames: readonly string[],
    fill: (set: Set) => void,
  ): void {
    new Counter({
      name,
      help,
      labelNames: [...labelNames],
      registers,
      collect() {
        this.reset()
        fill((labels, value) => this.inc(labelled(labelNames, labels), value))
      },
    })
  }

  function webSocketMetrics(hub: Pick<WebSocketHub, 'report'>): void {
    const name = (what: string): string => `sluice_websocket_${what}`
    gauge(name('connections'), 'Open WebSockets.', [], (set) => set([], hub.report().connections))
    gauge(name('waiting'), 'Published messages that wait for the rate of their tenant.', [], (set) =>
      set([], hub.report().waiting),
    )
    counter(name('published_total'), 'Published messages, by what became of them.', ['outcome'], (set) => {
      for (const [outcome, count] of Object.entries(hub.report().published)) set([outcome], count)
    })
    counter(
      name('passed_on_total'),
      'Messages for subscribers, each as often as it was passed on.',
      [],
      (set) => set([], hub.report().passedOn),
    )
    counter(name('refused_total'), 'Messages and upgrades that were refused.', ['code'], (set) => {
      for (const [code, count] of hub.report().refused) set([code], count)
    })
    counter(name('closed_total'), 'Connections that have ended, by close code.', ['code'], (set) => {
      for (const [code, count] of hub.report().closed) set([code], count)
    })
  }

  function processMetrics() {
    const delaySeconds = new Histogram({
      name: 'nodejs_eventloop_delay_seconds',
      help: 'For how long the event loop was held up, looked at every 20 ms.',
      buckets: latencyBuckets,
      registers,
    })
    let dueAt = performance.now() + loopProbeMs
    const probe = setInterval(() => {
      const now = performance.now()
      delaySeconds.observe(Math.max(0, now - dueAt) / 1_000)
      dueAt = now + loopProbeMs
    }, loopProbeMs)
    probe.unref()
    gauge('process_resident_memory_bytes', 'Resident memory.', [], (set) =>
      set([], process.memoryUsage.rss()),
    )
    counter('process_cpu_seconds_total', 'CPU time, user and system.', [], (set) => {
      const { user, system } = process.cpuUsage()
      set([], (user + system) / 1e6)
    })
    return probe
  }

  return {
    contentType: register.contentType,
    onAccepted: (tookMs) => acceptSeconds.observe(tookMs / 1_000),
    timeCommit() {
      const begunMs = performance.now()
      return () => commitSeconds.observe((performance.now() - begunMs) / 1_000)
    },
    text: () => register.metrics(),
    close() {
      unsubscribe()
      clearInterval(loopProbe)
    },
  }
}

const labelled = (names: readonly string[], values: readonly string[]): Record<string, string> =>
  Object.fromEntries(names.map((name, index) => [name, values[index]!]))

/** The outcome of a call to a provider; undefined for an event that ends no call. */
function callOutcome({ status, reason, attempt }: TimelineEvent): string | undefined {
  if (attempt === undefined) return undefined
  switch (status) {
    case 'delivered':
    case 'failed':
    case 'dead':
      return status
    case 'scheduled':
      return 'retry'
    case 'queued':
      return reason === 'retry' ? 'retry' : 'rate_limited'
    default:
      return undefined
  }
}

/** Counters by channel and one or two labels. */
class Tally {
  readonly #counts = new Map<Channel, Map<string, Map<string, number>>>()

  add(channel: Channel, word: string, second = ''): void {
    let words = this.#counts.get(channel)
    if (words === undefined) {
      words = new Map()
      this.#counts.set(channel, words)
    }
    let counts = words.get(word)
    if (counts === undefined) {
      counts = new Map()
      words.set(word, counts)
    }
    counts.set(second, (counts.get(second) ?? 0) + 1)
  }

  readonly each = (tell: (words: readonly string[], count: number) => void): void => {
    for (const [channel, words] of this.#counts) {
      for (const [word, counts] of words) {
        for (const [second, count] of counts)
          tell(second === '' ? [channel, word] : [channel, word, second], count)
      }
    }
  }
}
