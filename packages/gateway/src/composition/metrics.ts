/** Composes the metrics of a gateway: what each part reports about itself. */
import type { Retention } from '../ledger/retention.ts'
import type { JsonObject } from '../model.ts'
import { type ApartMetrics, createAccountMetrics } from '../observability/account-metrics.ts'
import { diskUse } from '../observability/disk-use.ts'
import { type ApartPath, createMetrics, type Metrics } from '../observability/metrics.ts'
import type { FeedbackReport } from '../observability/record-metrics.ts'
import { createTenantMetrics } from '../observability/tenant-metrics.ts'
import type { PoolReport } from '../stages.ts'
import { version } from '../version.ts'
import type { Admission } from './admission.ts'
import type { Dispatch } from './dispatch.ts'
import type { Fleet } from './fleet-parts.ts'
import type { Intakes } from './intake.ts'
import type { RuntimeContext } from './runtime-context.ts'
import type { Storage } from './storage.ts'

interface Inside {
  readonly record: Storage
  /** Absent where this process has its record for itself. */
  readonly fleet: Fleet | undefined
  readonly admission: Admission
  readonly dispatch: Dispatch
  readonly feedback: () => FeedbackReport
  readonly intakes: Intakes['reports']
  readonly pools: () => readonly PoolReport[]
  readonly retention: () => Retention | undefined
}

export function createGatewayMetrics(
  { config, policy: { part: policy }, clock, errorCounts }: RuntimeContext,
  { record, fleet, admission, dispatch, feedback, intakes, pools, retention }: Inside,
): Metrics {
  /** Metrics of accounts and tenants, where the operator wants them. */
  function apartMetrics(): ReadonlyMap<ApartPath, ApartMetrics> {
    const { accounts, tenantsTop } = config.metrics
    const apart = new Map<ApartPath, ApartMetrics>()
    const aheadMs = (): number => clock.aheadMs?.() ?? 0
    if (accounts) apart.set('/metrics/accounts', createAccountMetrics({ pools, maxOf: callsMax, aheadMs }))
    if (tenantsTop !== undefined) {
      const { occupancy } = record.ledger
      apart.set(
        '/metrics/tenants',
        createTenantMetrics({ top: tenantsTop, occupancy, complaints: record.complaints.report }),
      )
    }
    return apart
  }

  /** Calls at most in the narrowest window of an account. */
  function callsMax(channel: string, account: string): number | undefined {
    const own = config.pools.filter((pool) => pool.channel === channel).flatMap((pool) => pool.accounts)
    const windows = own.find((each) => each.account.id === account)?.rate.windows ?? []
    return windows.toSorted((a, b) => a.windowMs - b.windowMs)[0]?.max
  }

  const isServer = config.store.kind === 'postgres'
  let storeUp = true
  const metrics = createMetrics({
    ledger: record.ledger,
    onRecord: () => record.backlog.statuses?.() ?? record.ledger.counts(),
    queue: admission.queue,
    jobs: admission.jobs,
    orphans: admission.orphans,
    damagedRows: record.damagedRows,
    tenantsFull: record.tenantsFull,
    poolReports: pools,
    poolCounts: () =>
      dispatch.pools.map((pool) => ({ ...dispatch.watch.countsOf(pool), ...pool.load(clock.now()) })),
    webSocket: dispatch.hub,
    channels: [...new Set(dispatch.pools.map(({ channel }) => channel))],
    pools: dispatch.pools.map(({ channel, provider }) => ({ channel, provider: provider.name })),
    limits: () => limitsOf(policy.document),
    backlog: () => record.backlog.totals(clock.now()),
    errorCounts: () => errorCounts,
    retention: () => ({
      oldestAt: record.ledger.oldestAt(),
      rounds: retention()?.rounds ?? { done: 0, failed: 0 },
    }),
    feedback,
    deliveryLog: record.deliveryLog?.report,
    outgoing: admission.outgoing?.report,
    fleet: fleet?.report,
    ...(config.intake.length === 0 ? {} : { intakes }),
    build: () => ({ version, policy: policy.version }),
    now: () => clock.now(),
    complaints: {
      categories: () => policy.complaints?.categories ?? [],
      report: record.complaints.report,
    },
    apart: apartMetrics(),
    ...(record.limits === undefined
      ? {}
      : {
          state: record.limits.health.counts,
          limitsKeeper: record.limits.keeper?.keeper,
          limitReads: record.limits.reads,
        }),
    ...(isServer && { storeUp: () => storeUp }),
    ...(config.store.kind === 'postgres' || config.store.path === ':memory:'
      ? {}
      : { disk: () => diskUse(config.store.path) }),
  })
  const { refresh } = record.backlog
  if (!isServer) return metrics
  return {
    ...metrics,
    async text() {
      // Where the store is away, a scrape tells what was counted last.
      const refreshed = refresh?.().catch(() => undefined)
      storeUp = await record.store.ping().then(
        () => true,
        () => false,
      )
      await refreshed
      return metrics.text()
    },
  }
}

/** The limits of a policy, with what becomes of a notification over each: `digest:daily` counts as `digest`. */
function limitsOf(document: JsonObject): readonly { readonly name: string; readonly over: string }[] {
  const limits = (document.limits ?? []) as unknown as readonly {
    readonly name: string
    readonly over?: unknown
  }[]
  return limits.map(({ name, over }) => ({
    name,
    over: typeof over === 'string' ? over.split(':', 1)[0]! : 'delay',
  }))
}
