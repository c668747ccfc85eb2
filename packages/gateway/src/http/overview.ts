/**
 * The overview answers the present in one piece: rates, latency, what waits and why, dead letters, accounts, and the problems that
 * an operator should look at first. All of it is counters in memory. The store is asked for what waits where several
 * processes share it.
 */

import type { BacklogReports } from '../backlog-cell.ts'
import { type Channel, type Status, statuses } from '../model.ts'
import type { DiskUse } from '../observability/metrics.ts'
import type { Clock } from '../ports.ts'
import type { ComplaintReport } from '../reports.ts'
import type { Happening, Ledger, PoolReport } from '../stages.ts'
import { capacityOf } from './capacity.ts'
import { createOverviewSeries, type OverviewSeries } from './overview-series.ts'
import { createProviderCalls } from './provider-calls.ts'
import type { ProbedState } from './routes/probes.ts'

export interface OverviewOptions {
  readonly ledger: Pick<Ledger, 'subscribe' | 'counts' | 'pruned'>
  readonly backlog: BacklogReports
  readonly pools: () => readonly PoolReport[]
  readonly clock: Pick<Clock, 'now'>
  /** Items of digests that no open digest collects. */
  readonly orphans: { count(): number }
  /** The space that the store takes on its disk. @defaultValue it is not known */
  readonly disk?: (() => DiskUse | undefined) | undefined
  /** The categories of tenants whose complaints are counted. @defaultValue none */
  readonly complaints?: (() => readonly ComplaintReport[]) | undefined
  /** A sentence for each gateway over the same record that has another configuration. @defaultValue none */
  readonly configurationDifferences?: (() => readonly string[]) | undefined
  /** The server of the limits; absent where they are in memory. */
  readonly state?: Pick<ProbedState, 'away' | 'keeper'> | undefined
}

interface Problem {
  readonly code:
    | 'POOL_OUT'
    | 'POOL_DEGRADED'
    | 'QUEUE_AGES'
    | 'STATE_UNAVAILABLE'
    | 'DEAD_LETTERS_STAY'
    | 'CATEGORY_PAUSED'
    | 'CONFIGURATION_DIFFERS'
    | 'UNACCOUNTED'
  readonly severity: 'page' | 'ticket'
  readonly channel?: string
  readonly provider?: string
  /** The instant at which it began, or was first noticed by a reading of the overview, epoch ms. */
  readonly since: number
  readonly until?: number
  readonly count?: number
  readonly text: string
}

/** A notification that is due for longer than this is a problem, ms. */
const agesMs = 60_000
/** The share of a pool's accounts that may be out. */
const degradedShare = 0.1
/** Categories of tenants that one answer names at most, those with the highest rates. */
const complaintsMax = 100
const returning: ReadonlySet<string> = new Set(['pool_blocked', 'shed', 'circuit_open'])

export const noBacklog: BacklogReports = {
  report: () => ({ groups: [], departures: [] }),
  deadLetters: () => [],
}

interface Waiting {
  readonly byReason: Readonly<Record<string, number>>
  readonly dueNow: number
  readonly oldestDueMs: number
  readonly deadLetters: Readonly<Record<string, number>>
}

export const noOrphans: OverviewOptions['orphans'] = { count: () => 0 }

export interface Overview {
  readonly series: OverviewSeries
  /** Brings what waits up to date; to be awaited before a reading. */
  refresh(): Promise<void>
  /**
   * The notifications that stay because Redis is away: all, or those that were accepted undecided where a process keeps the
   * limits meanwhile.
   */
  standsStill(): 'all' | 'undecided' | undefined
  /** The part that belongs to one tenant, or to all. */
  waiting(tenant: string | undefined): Waiting
  accounts(): Readonly<Record<'healthy' | 'blocked' | 'open' | 'half_open' | 'held', number>>
  unaccounted(): number
  /** The space of the store and of its disk, and the commits of the last minute; null where it is not known. */
  store(): {
    readonly bytes: number | null
    readonly freeBytes: number | null
    readonly commitP99Ms: number | null
  }
  /** The categories that are slowed or paused because of complaints, of one tenant or all. */
  complaints(tenant: string | undefined): readonly ComplaintReport[]
  /** The problems, from what waits of all tenants: the caller has summed it already. */
  problems(waiting: Waiting): readonly Problem[]
  /** The side to which a trouble belongs, the gateway's own or a provider's, in one sentence. */
  cause(waiting: Waiting): { readonly side: 'neither' | 'us' | 'them'; readonly text: string }
  close(): void
}

/** A problem without the instant at which it began. */
type Found = Omit<Problem, 'since'> & Partial<Pick<Problem, 'since'>>

export function createOverview(options: OverviewOptions): Overview {
  const { ledger, backlog, pools, clock, orphans, disk, state } = options
  const series = createOverviewSeries(() => clock.now())
  const sum = (counts: Readonly<Record<Status, number>>): number =>
    statuses.reduce((total, status) => total + counts[status], 0)
  const onRecordBefore = sum(ledger.counts())
  let accepted = 0

  const calls = createProviderCalls(() => clock.now())

  const unsubscribe = ledger.subscribe(({ notification, events }: Happening) => {
    for (const event of events) {
      const { status, reason, attempt } = event
      calls.note(notification.channel, event)
      if (status === 'accepted') {
        accepted += 1
        series.add('accepted')
      } else if (status === 'suppressed') series.add('suppressed')
      else if (status === 'queued' && reason === 'provider_capacity' && attempt !== undefined)
        series.add('rateLimited')
      else if (status === 'delivered') {
        series.add('delivered')
        const sent = notification.timeline.find((event) => event.status === 'sending')
        const promised = notification.decision.at
        if (sent !== undefined && promised !== undefined)
          series.observe('late', Math.max(0, sent.at - promised))
      }
    }
  })

  /** A sentence without its full stop, while the limits cannot be asked. */
  function stateAway(): string | undefined {
    const away = state?.away()
    if (away === undefined) return undefined
    const keeper = state?.keeper?.()
    const meanwhile =
      keeper === undefined
        ? 'what is due waits'
        : `${keeper} keeps the limits of what is shared, and all else waits`
    const reason = away.reason.replace(/\.$/, '')
    return `For ${Math.round(away.ms / 1_000)} s the limits in Redis could not be asked, and ${meanwhile}: ${reason}`
  }

  /** The accounts in a few words, where none of them is in trouble: those that operators hold are named. */
  function accountsIn(): string {
    const held = pools()
      .flatMap(({ accounts }) => accounts)
      .filter(({ status }) => status === 'held').length
    if (held === 0) return 'all accounts are in'
    return `all accounts are in but ${held} that an operator holds`
  }

  const report = (tenant: string | undefined) => {
    const now = clock.now()
    const reports = pools()
    return backlog.report({
      by: 'reason',
      now,
      capacityOf: (channel: Channel) => capacityOf(reports, channel, now),
      ...(tenant === undefined ? {} : { tenant }),
    })
  }
  const unaccounted = (): number =>
    onRecordBefore + accepted - ledger.pruned() - sum(ledger.counts()) + orphans.count()

  const guarded = (tenant: string | undefined): readonly ComplaintReport[] =>
    (options.complaints?.() ?? [])
      .filter((each) => each.stage !== 'free' && (tenant === undefined || each.tenant === tenant))
      .sort((a, b) => b.bound - a.bound)
      .slice(0, complaintsMax)

  /** The instants at which the problems of now were first noticed, by what names them: a few for each pool. */
  const noticed = new Map<string, number>()

  function noticedSince(found: readonly Found[]): readonly Problem[] {
    const now = clock.now()
    const keyOf = ({ code, channel, provider }: Found): string => [code, channel, provider].join('\n')
    const present = new Set(found.map(keyOf))
    for (const key of noticed.keys()) if (!present.has(key)) noticed.delete(key)
    return found.map((problem) => {
      const key = keyOf(problem)
      const since = problem.since ?? noticed.get(key) ?? now
      noticed.set(key, since)
      return { ...problem, since }
    })
  }

  function poolProblems(): readonly Found[] {
    return pools().flatMap(({ channel, provider, accounts }): Found[] => {
      // An operator's hold is no trouble, but carries nothing either.
      const held = accounts.filter(({ status }) => status === 'held').length
      const out = accounts.filter(({ status }) => status !== 'healthy' && status !== 'held')
      if (out.length === 0 || out.length <= accounts.length * degradedShare) return []
      const left = accounts.length - out.length - held
      const back = out.flatMap(({ outUntil }) => (outUntil === null ? [] : [outUntil]))
      const isOut = left === 0
      const until = back.length === 0 ? {} : { until: Math.min(...back) }
      return [
        {
          code: isOut ? 'POOL_OUT' : 'POOL_DEGRADED',
          severity: isOut ? 'page' : 'ticket',
          channel,
          provider,
          count: out.length,
          ...until,
          text: `${isOut ? 'No account' : `Only ${left} of ${accounts.length} accounts`} of ${provider} ${isOut || left === 1 ? 'carries' : 'carry'} ${channel}.`,
        },
      ]
    })
  }

  return {
    series,
    refresh: async () => backlog.refresh?.(),
    unaccounted,
    standsStill() {
      if (state?.away() === undefined) return undefined
      return state.keeper?.() === undefined ? 'all' : 'undecided'
    },
    complaints: guarded,
    waiting(tenant) {
      const now = clock.now()
      const { groups } = report(tenant)
      const due = groups.filter(({ oldestDueAt }) => oldestDueAt !== null)
      const deadLetters: Record<string, number> = {}
      for (const { cause, count } of backlog.deadLetters(tenant === undefined ? {} : { tenant }))
        deadLetters[cause] = (deadLetters[cause] ?? 0) + count
      return {
        byReason: Object.fromEntries(groups.map(({ key, count }) => [key, count])),
        dueNow: due.reduce((total, { count }) => total + count, 0),
        oldestDueMs: due.reduce((oldest, { oldestDueAt }) => Math.max(oldest, now - oldestDueAt!), 0),
        deadLetters,
      }
    },
    accounts() {
      const counts = { healthy: 0, blocked: 0, open: 0, half_open: 0, held: 0 }
      for (const { accounts } of pools()) for (const { status } of accounts) counts[status] += 1
      return counts
    },
    store() {
      const { files, freeBytes = null } = disk?.() ?? {}
      return {
        bytes: files === undefined ? null : Object.values(files).reduce((total, bytes) => total + bytes, 0),
        freeBytes,
        commitP99Ms: series.quantile('commit', 0.99),
      }
    },
    problems({ dueNow, oldestDueMs, deadLetters }) {
      const staying = Object.entries(deadLetters).filter(([cause]) => !returning.has(cause))
      const found: Found[] = [...poolProblems()]
      const away = stateAway()
      if (away !== undefined) {
        const since = clock.now() - state!.away()!.ms
        found.push({ code: 'STATE_UNAVAILABLE', severity: 'page', since, text: `${away}.` })
      }
      if (oldestDueMs > agesMs) {
        found.push({
          code: 'QUEUE_AGES',
          severity: 'page',
          since: clock.now() - oldestDueMs + agesMs,
          count: dueNow,
          text: `${dueNow} notifications are due and have not left, the oldest for ${Math.round(oldestDueMs / 1_000)} s.`,
        })
      }
      for (const [cause, count] of staying) {
        found.push({
          code: 'DEAD_LETTERS_STAY',
          severity: 'ticket',
          count,
          text: `${count} dead letters (${cause}) stay until an operator redrives them.`,
        })
      }
      const paused = guarded(undefined).filter(({ stage }) => stage === 'paused')
      if (paused.length > 0) {
        const [{ tenant, category }] = paused as [ComplaintReport]
        const more = paused.length > 1 ? `, and ${paused.length - 1} more` : ''
        found.push({
          code: 'CATEGORY_PAUSED',
          severity: 'ticket',
          since: Math.min(...paused.map(({ since = clock.now() }) => since)),
          count: paused.length,
          text: `Too many recipients complain: ${category} of ${tenant} is paused${more}.`,
        })
      }
      const differences = options.configurationDifferences?.() ?? []
      if (differences.length > 0) {
        found.push({
          code: 'CONFIGURATION_DIFFERS',
          severity: 'ticket',
          count: differences.length,
          text: `Gateways over this record decide by different configurations: ${differences.slice(0, 3).join('; ')}.`,
        })
      }
      const missing = unaccounted()
      if (missing !== 0) {
        found.push({
          code: 'UNACCOUNTED',
          severity: 'page',
          count: missing,
          text: `${missing} accepted notifications are in no state.`,
        })
      }
      return noticedSince(found)
    },
    cause({ dueNow, oldestDueMs }) {
      const away = stateAway()
      if (away !== undefined) return { side: 'us', text: `Us: ${away}.` }
      const troubled = calls.read().find((pool) => pool.troubled > pool.calls * degradedShare)
      const out = poolProblems()
      if (troubled !== undefined || out.length > 0) {
        const failed =
          troubled === undefined
            ? []
            : [
                `${troubled.provider} did not carry ${troubled.troubled} of ${troubled.calls} calls for ${troubled.channel} in the last minute`,
              ]
        const gone = out.map(({ text }) => text.replace(/\.$/, ''))
        return { side: 'them', text: `Them: ${[...failed, ...gone].join('; ')}.` }
      }
      const failedRequests = Math.round(series.perSecond('requests5xx') * 60)
      const missing = unaccounted()
      const own = [
        ...(oldestDueMs > agesMs
          ? [
              `${dueNow} notifications are due, the oldest for ${Math.round(oldestDueMs / 1_000)} s, while ${accountsIn()}`,
            ]
          : []),
        ...(failedRequests > 0 ? [`${failedRequests} requests were answered 5xx in the last minute`] : []),
        ...(missing === 0 ? [] : [`${missing} notifications are in no state`]),
      ]
      if (own.length > 0) return { side: 'us', text: `Us: ${own.join('; ')}.` }
      return {
        side: 'neither',
        text: `Neither: ${accountsIn()}, nothing is due for long, and no call or request failed in the last minute.`,
      }
    },
    close: unsubscribe,
  }
}
