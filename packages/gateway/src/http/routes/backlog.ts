/**
 * Routes of what piles up: the backlog, the overview, and the dead letters in groups. All of it is counters in memory,
 * which are counted anew on record where several processes share the store.
 */
import type { FastifyRequest } from 'fastify'
import { type BacklogReports, departureMinutes } from '../../backlog-cell.ts'
import type { Channel } from '../../model.ts'
import type { Peers } from '../../ports/fleet.ts'
import type { Clock } from '../../ports.ts'
import type { PoolReport } from '../../stages.ts'
import { iso, isoOrNull } from '../answer.ts'
import { capacityOf } from '../capacity.ts'
import { returnsByItself } from '../explanation.ts'
import { mayRead } from '../identity.ts'
import {
  type BacklogParams,
  backlogQuery,
  backlogSchema,
  type DeadSummaryParams,
  deadSummaryQuery,
  deadSummarySchema,
  type OverviewParams,
  overviewQuery,
  overviewSchema,
  type RequestsParams,
  requestsQuery,
  requestsSchema,
} from '../operator-schema.ts'
import type { Overview } from '../overview.ts'
import type { LoggedRequest, RefusedRequests, RequestFilter } from '../refused-requests.ts'
import { basePath, type Route } from '../route.ts'
import { parseInstant } from '../syntax.ts'
import { aheadOf } from '../wall-time.ts'

export interface BacklogRoutesOptions {
  readonly backlog: BacklogReports
  readonly overview: Overview
  readonly requests: Pick<RefusedRequests, 'find'>
  readonly pools: () => readonly PoolReport[]
  readonly clock: Pick<Clock, 'now' | 'aheadMs'>
  /** The other processes of a fleet, which keep requests, too. @defaultValue there are none */
  readonly peers?: Pick<Peers, 'ask' | 'answer'> | undefined
}

/** The tenant that an answer is about: the caller's own, unless it may read all tenants. Undefined for all. */
function tenantOf({ caller }: FastifyRequest, asked: string | undefined): string | undefined {
  return mayRead(caller) && caller.asTenant !== true ? asked : caller.tenant
}

export function backlogRoutes(options: BacklogRoutesOptions): readonly Route[] {
  const { backlog, overview, requests, pools, clock, peers } = options
  peers?.answer('requests', (filter) => requests.find(filter as RequestFilter))

  /** The newest requests first, of all processes. */
  async function findRequests(filter: RequestFilter): Promise<readonly LoggedRequest[]> {
    const asked = await peers?.ask('requests', filter)
    const others = [...(asked?.answers.values() ?? [])] as readonly (readonly LoggedRequest[])[]
    return [requests.find(filter), ...others]
      .flat()
      .sort((a, b) => b.at - a.at)
      .slice(0, filter.limit)
  }

  return [
    {
      method: 'GET',
      path: `${basePath}/backlog`,
      operation: 'getBacklog',
      tag: 'Operation',
      summary: 'Notifications that wait, in groups, and when each group will be gone',
      details:
        'Counters in memory, kept with every change: no table is read. Gateways that share a store count what is on record, once a second at most. A booked instant is exact to the second. At most 200 groups, the rest as `other`. A tenant sees its own, an operator all tenants or the one of `tenant`',
      access: 'caller',
      counts: 'reads',
      query: backlogQuery,
      answers: { 200: { description: 'The groups, the largest first', schema: backlogSchema } },
      async handle(request) {
        const { by = 'reason', tenant: asked, channel, reason } = request.query as BacklogParams
        const tenant = tenantOf(request, asked)
        await backlog.refresh?.()
        const now = clock.now()
        const aheadMs = aheadOf(clock)
        const reports = pools()
        const still = overview.standsStill()
        const { groups, departures } = backlog.report({
          by,
          now,
          capacityOf: (on: Channel) => (still === 'all' ? undefined : capacityOf(reports, on, now)),
          ...(tenant === undefined ? {} : { tenant }),
          ...(channel === undefined ? {} : { channel }),
          ...(reason === undefined ? {} : { reason }),
        })
        const wall = (instant: number | null): string | null =>
          isoOrNull(instant === null ? null : instant + aheadMs)
        return {
          at: iso(now + aheadMs),
          groups: groups.map(({ oldestDueAt, nextAt, lastAt, emptyAt, ...group }) => {
            const stays = still !== undefined && by === 'reason' && group.key === 'state_unavailable'
            return {
              key: group.key,
              count: group.count,
              oldestDueAt: wall(oldestDueAt),
              nextAt: wall(nextAt),
              lastAt: wall(lastAt),
              emptyAt: stays ? null : wall(emptyAt),
              emptyIs: stays ? 'never' : group.emptyIs,
              leaving: group.leaving,
            }
          }),
          departures: {
            stepMs: 60_000,
            from: iso(now + aheadMs),
            counts: departures.slice(0, departureMinutes),
          },
        }
      },
    },
    {
      method: 'GET',
      path: `${basePath}/overview`,
      operation: 'getOverview',
      tag: 'Operation',
      summary: 'Rates, latency, backlog, dead letters, accounts and problems, as they are now',
      details:
        'The series begin with the process. With the view of one tenant only what is counted by tenant is answered',
      access: 'caller',
      counts: 'reads',
      query: overviewQuery,
      answers: { 200: { description: 'The present', schema: overviewSchema } },
      async handle(request) {
        const { tenant: asked, step = 'second' } = request.query as OverviewParams
        const tenant = tenantOf(request, asked)
        await overview.refresh()
        const aheadMs = aheadOf(clock)
        const waiting = overview.waiting(tenant)
        const { byReason, dueNow, oldestDueMs, deadLetters } = waiting
        const own = {
          at: iso(clock.now() + aheadMs),
          waiting: { byReason },
          dueNow,
          oldestDueMs,
          deadLetters: { byCause: deadLetters },
          complaints: overview.complaints(tenant).map(({ since, until, ...each }) => ({
            ...each,
            since: isoOrNull(since === undefined ? null : since + aheadMs),
            until: isoOrNull(until === undefined ? null : until + aheadMs),
          })),
        }
        if (tenant !== undefined) return own
        const { series } = overview
        const { stepMs, from, values } = series.read(step)
        return {
          ...own,
          rates: {
            accepted: series.perSecond('accepted'),
            delivered: series.perSecond('delivered'),
            suppressed: series.perSecond('suppressed'),
            rateLimited: series.perSecond('rateLimited'),
            requests4xx: series.perSecond('requests4xx'),
            requests5xx: series.perSecond('requests5xx'),
          },
          latency: {
            acceptP50Ms: series.quantile('accept', 0.5),
            acceptP99Ms: series.quantile('accept', 0.99),
            latenessP50Ms: series.quantile('late', 0.5),
            latenessP99Ms: series.quantile('late', 0.99),
          },
          accounts: overview.accounts(),
          unaccounted: overview.unaccounted(),
          cause: overview.cause(waiting),
          store: overview.store(),
          problems: overview.problems(waiting).map(({ since, until, ...problem }) => ({
            ...problem,
            since: iso(since + aheadMs),
            ...(until === undefined ? {} : { until: iso(until + aheadMs) }),
          })),
          series: { stepMs, from: iso(from + aheadMs), ...values },
        }
      },
    },
    {
      method: 'GET',
      path: `${basePath}/requests`,
      operation: 'listRefusedRequests',
      tag: 'Operation',
      summary: 'Requests that were refused or failed, newest first',
      details:
        'The last 10,000 of each gateway, in memory, without 404 and without bodies. A tenant sees its own, an operator all',
      access: 'caller',
      counts: 'reads',
      query: requestsQuery,
      answers: { 200: { description: 'The requests', schema: requestsSchema } },
      async handle(request) {
        const { tenant: asked, status, code, recipient, from, limit = 50 } = request.query as RequestsParams
        const tenant = tenantOf(request, asked)
        const aheadMs = aheadOf(clock)
        const found = await findRequests({
          limit,
          ...(tenant === undefined ? {} : { tenant }),
          ...(status === undefined ? {} : { status }),
          ...(code === undefined ? {} : { code }),
          ...(recipient === undefined ? {} : { recipient }),
          ...(from === undefined ? {} : { from: parseInstant(from) - aheadMs }),
        })
        return { items: found.map((each) => ({ ...each, at: iso(each.at + aheadMs) })) }
      },
    },
    {
      method: 'GET',
      path: `${basePath}/dead-letters/summary`,
      operation: 'summarizeDeadLetters',
      tag: 'Operation',
      summary: 'Dead letters by cause, channel and account, the largest group first',
      access: 'reader',
      counts: 'reads',
      query: deadSummaryQuery,
      answers: { 200: { description: 'At most 200 groups', schema: deadSummarySchema } },
      async handle(request) {
        const { tenant: asked, channel } = request.query as DeadSummaryParams
        const tenant = tenantOf(request, asked)
        await backlog.refresh?.()
        const aheadMs = aheadOf(clock)
        const groups = backlog.deadLetters({
          ...(tenant === undefined ? {} : { tenant }),
          ...(channel === undefined ? {} : { channel }),
        })
        return {
          groups: groups.map(
            ({ cause, channel: on, provider, account, answer, count, oldestAt, example }) => ({
              cause,
              channel: on,
              provider: provider ?? null,
              account: account ?? null,
              answer: answer ?? null,
              count,
              oldestAt: iso(oldestAt + aheadMs),
              returnsByItself: returnsByItself(cause),
              example: example ?? null,
            }),
          ),
        }
      },
    },
  ]
}
