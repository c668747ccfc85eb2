/**
 * Metrics of notifications: decisions, changes of state, lateness, calls to providers. All of them are counted from
 * what the ledger reports after a commit, so that they agree with the record. The labels are channels, states,
 * reasons, providers and names of the policy, never tenants or recipients: their number is bounded.
 */
import type { Channel, Notification, Priority, Reason, Status, TimelineEvent } from '../model.ts'
import { deadCauses, priorities, statuses } from '../model.ts'
import type { Happening } from '../stages.ts'
import { type Cell, type Distribution, type Meter, type SetValue, Tally } from './meter.ts'

export interface NotificationMetricsOptions {
  /** Channels that a pool serves: their series are there from the start. */
  readonly channels: readonly Channel[]
  /** Pools of the configuration: their series are there from the start. */
  readonly pools: readonly { readonly channel: Channel; readonly provider: string }[]
  /** Limits of the policy in force, with what becomes of a notification over each. */
  readonly limits: () => readonly { readonly name: string; readonly over: string }[]
}

export interface NotificationMetrics {
  /** Counts one transition that is on record. */
  count(happening: Happening): void
}

/** Seconds of lateness: from the jitter of a timer to two hours. */
const latenessBounds = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200]
const deliveryBounds = [0.1, 0.5, 1, 5, 30, 300, 3600]
const callBounds = [0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15]
/** Names of limits at most; further ones count as `other`. */
const limitNamesMax = 200

const suppressionReasons = [
  'duplicate',
  'opted_out',
  'over_limit',
  'complaint_guard',
  'invalid_address',
] as const
const callOutcomes = ['delivered', 'failed', 'retry', 'rate_limited', 'dead'] as const
type CallOutcome = (typeof callOutcomes)[number]
const decisions: readonly (readonly [outcome: string, reason: string])[] = [
  ['send', 'none'],
  ['digest', 'digest'],
  ...(
    [
      'recipient_limit',
      'tenant_limit',
      'module_limit',
      'quiet_hours',
      'legal_hours',
      'held',
      'send_at',
      'state_unavailable',
    ] as const
  ).map((reason) => ['delay', reason] as const),
  ...suppressionReasons.map((reason) => ['suppress', reason] as const),
]

export function createNotificationMetrics(
  meter: Meter,
  options: NotificationMetricsOptions,
): NotificationMetrics {
  const known = new Map<Channel, ChannelCounts>()
  const countsOf = (channel: Channel): ChannelCounts => {
    let counts = known.get(channel)
    if (counts === undefined) {
      counts = createChannelCounts(channel)
      known.set(channel, counts)
    }
    return counts
  }
  const eachOf =
    (countsIn: (counts: ChannelCounts) => Readonly<Record<string, number>>) =>
    (set: SetValue): void => {
      for (const [channel, counts] of known)
        for (const [word, count] of Object.entries(countsIn(counts))) set([channel, word], count)
    }
  const suppressions = new Tally()
  const decided = new Tally()
  const refusals = new Tally()
  const throttled = { tenant: 0, module: 0 }
  const calls = new Tally()
  const deaths = new Tally()
  const returns = new Tally()
  const limitNames = new Set<string>()

  meter.counter(
    'sluice_accepted_total',
    'Notifications accepted since the process started.',
    ['channel', 'priority'],
    eachOf(({ accepted }) => accepted),
  )
  meter.counter(
    'sluice_state_changes_total',
    'Changes of state of notifications since the process started.',
    ['channel', 'status'],
    eachOf(({ changes }) => changes),
  )
  meter.counter(
    'sluice_decisions_total',
    'Decisions at acceptance, by outcome and by the reason of a delay or suppression.',
    ['channel', 'outcome', 'reason'],
    decided.each,
  )
  meter.counter(
    'sluice_limit_refusals_total',
    'Notifications that a limit of the policy did not admit at acceptance, by what became of them.',
    ['limit', 'over'],
    (set) => {
      for (const { name, over } of options.limits()) refusals.add(limitLabel(name), over, '', 0)
      refusals.each(set)
    },
  )
  meter.counter(
    'sluice_throttle_delays_total',
    'Notifications that were queued because of a limit of their tenant or module (HTTP 429, accepted).',
    ['limit'],
    (set) => {
      for (const limit of ['tenant', 'module'] as const) set([limit], throttled[limit])
    },
  )
  meter.counter(
    'sluice_suppressed_total',
    'Notifications that ended suppressed.',
    ['channel', 'reason'],
    suppressions.each,
  )
  const lateness = meter.histogram(
    'sluice_lateness_seconds',
    'From the promised instant of a notification to its first call to the provider.',
    ['channel', 'priority'],
    latenessBounds,
  )
  const delivery = meter.histogram(
    'sluice_delivery_seconds',
    'From the promised instant of a notification to its delivery, retries included.',
    ['channel'],
    deliveryBounds,
  )
  const callSeconds = meter.histogram(
    'sluice_provider_call_seconds',
    'Duration of calls to providers.',
    ['channel', 'provider'],
    callBounds,
  )
  meter.counter(
    'sluice_provider_calls_total',
    'Calls to providers that have ended; failed means rejected for good, retry that another call follows.',
    ['channel', 'provider', 'outcome'],
    calls.each,
  )
  meter.counter(
    'sluice_dead_letters_total',
    'Notifications that became dead letters.',
    ['channel', 'cause'],
    deaths.each,
  )
  meter.counter(
    'sluice_dead_letters_returned_total',
    'Dead letters that left by redrive, by an operator or by themselves.',
    ['channel', 'cause'],
    returns.each,
  )

  for (const channel of options.channels) {
    countsOf(channel)
    for (const [outcome, reason] of decisions) decided.add(channel, outcome, reason, 0)
    for (const reason of suppressionReasons) suppressions.add(channel, reason, '', 0)
    for (const cause of deadCauses) for (const tally of [deaths, returns]) tally.add(channel, cause, '', 0)
  }
  for (const { channel, provider } of options.pools) {
    callSeconds.of(channel, provider)
    for (const outcome of callOutcomes) calls.add(channel, provider, outcome, 0)
  }

  function limitLabel(name: string): string {
    if (limitNames.has(name)) return name
    if (limitNames.size >= limitNamesMax) return 'other'
    limitNames.add(name)
    return name
  }

  /** The counters of a channel, found once: a look at a map for each label measured 8 µs a message. */
  function createChannelCounts(channel: Channel): ChannelCounts {
    const zeros = <Word extends string>(words: readonly Word[]): Record<Word, number> =>
      Object.fromEntries(words.map((word) => [word, 0])) as Record<Word, number>
    return {
      accepted: zeros(priorities),
      changes: zeros(statuses),
      lateness: Object.fromEntries(
        priorities.map((priority) => [priority, lateness.of(channel, priority)]),
      ) as Record<Priority, Distribution>,
      sentAtOnce: decided.cell(channel, 'send', 'none'),
      delivery: delivery.of(channel),
      calls: new Map(),
    }
  }

  function countDecision(counts: ChannelCounts, { channel, priority, decision }: Notification): void {
    const { outcome, reason, limit } = decision
    counts.accepted[priority] += 1
    if (outcome === 'send' && reason === undefined) counts.sentAtOnce.count += 1
    else decided.add(channel, outcome, reason ?? 'none')
    if (reason === 'tenant_limit') throttled.tenant += 1
    else if (reason === 'module_limit') throttled.module += 1
    else if (limit !== undefined) refusals.add(limitLabel(limit), overOf[outcome])
  }

  function countCall(
    { calls: known }: ChannelCounts,
    { channel, firedAt }: Notification,
    event: TimelineEvent,
    outcome: CallOutcome,
  ): void {
    const provider = event.provider ?? 'none'
    let own = known.get(provider)
    if (own === undefined) {
      own = { seconds: callSeconds.of(channel, provider), outcomes: {} }
      known.set(provider, own)
    }
    own.outcomes[outcome] ??= calls.cell(channel, provider, outcome)
    own.outcomes[outcome].count += 1
    if (firedAt !== undefined) own.seconds.observe(secondsFrom(firedAt, event.at))
  }

  return {
    count({ notification, before, events }) {
      const { channel, priority, firedAt } = notification
      const counts = countsOf(channel)
      for (const event of events) {
        const { status } = event
        counts.changes[status] += 1
        if (status === 'accepted') countDecision(counts, notification)
        else if (status === 'suppressed') suppressions.add(channel, event.reason ?? 'none')
        else if (status === 'dead') deaths.add(channel, event.reason ?? 'none')
        const outcome = callOutcome(event)
        if (outcome !== undefined) countCall(counts, notification, event, outcome)
        if (status === 'delivered' && before !== undefined)
          counts.delivery.observe(secondsFrom(promisedAt(before), event.at))
      }
      if (before === undefined) return
      if (before.firedAt === undefined && firedAt !== undefined)
        counts.lateness[priority].observe(secondsFrom(before.dueAt, firedAt))
      if (before.status !== 'dead') return
      if (notification.status === 'queued' || notification.status === 'scheduled')
        returns.add(before.channel, causeOf(before.timeline))
    },
  }
}

interface ChannelCounts {
  readonly accepted: Record<Priority, number>
  readonly changes: Record<Status, number>
  readonly lateness: Readonly<Record<Priority, Distribution>>
  /** Decisions to send at once: nearly all of them. */
  readonly sentAtOnce: Cell
  readonly delivery: Distribution
  readonly calls: Map<string, ProviderCounts>
}

/** The calls to one provider: their durations, and counts by outcome, found once. */
interface ProviderCounts {
  readonly seconds: Distribution
  readonly outcomes: Partial<Record<CallOutcome, Cell>>
}

const overOf = {
  send: 'delay',
  delay: 'delay',
  digest: 'digest',
  fallback: 'fallback',
  suppress: 'drop',
} as const

/** The cause of a dead letter: the reason of the event that made it one. */
const causeOf = (timeline: readonly TimelineEvent[]): Reason | 'none' => timeline.at(-1)?.reason ?? 'none'

/**
 * The promised instant of a notification: that of its decision, which a retry does not move, or an earlier one at which
 * its turn in a throttle queue came.
 */
const promisedAt = ({ decision, dueAt }: Notification): number => Math.min(decision.at ?? dueAt, dueAt)

/** Seconds between two instants, at least 0: a call may be made within the same millisecond. */
const secondsFrom = (from: number, to: number): number => Math.max(0, to - from) / 1_000

/** The outcome of a call to a provider; undefined for an event that ends no call. */
export function callOutcome({ status, reason, attempt }: TimelineEvent): CallOutcome | undefined {
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
