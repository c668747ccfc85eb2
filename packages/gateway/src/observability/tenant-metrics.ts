/** Metrics of the tenants with the most notifications, on a path of their own that needs the scope to read. */
import type { Ledger } from '../stages.ts'
import type { ApartMetrics } from './account-metrics.ts'
import { type ComplaintReports, measureTenantComplaints } from './complaint-metrics.ts'
import { createMeter } from './meter.ts'

export interface TenantMetricsOptions {
  /** Tenants that are shown at most: those that accepted the most since the process started. */
  readonly top: number
  readonly occupancy: Ledger['occupancy']
  /** The categories of tenants that have counts. @defaultValue none */
  readonly complaints?: ComplaintReports['report']
}

interface Counts {
  accepted: number
  delivered: number
  suppressed: number
}

/** Tenants that are counted at most; of further ones nothing is known. */
const countedMax = 10_000

export function createTenantMetrics({
  top,
  occupancy,
  complaints = () => [],
}: TenantMetricsOptions): ApartMetrics {
  const meter = createMeter()
  const tenants = new Map<string, Counts>()
  const first = (): readonly (readonly [string, Counts])[] =>
    [...tenants].toSorted(([, a], [, b]) => b.accepted - a.accepted).slice(0, top)

  const help = { accepted: 'accepted', delivered: 'delivered', suppressed: 'suppressed' } as const
  for (const [key, what] of Object.entries(help))
    meter.counter(
      `sluice_tenant_${key}_total`,
      `Notifications of a tenant that were ${what} since the process started.`,
      ['tenant'],
      (set) => {
        for (const [tenant, counts] of first()) set([tenant], counts[key as keyof Counts])
      },
    )
  meter.gauge(
    'sluice_tenant_waiting',
    'What waits of a tenant, by the bound in which it counts.',
    ['tenant', 'bound'],
    (set) => {
      for (const [tenant] of first())
        for (const [bound, count] of Object.entries(occupancy(tenant))) set([tenant, bound], count)
    },
  )
  measureTenantComplaints(meter, complaints, () => new Set(first().map(([tenant]) => tenant)))
  return {
    count({ notification, events }) {
      const { tenant } = notification
      let counts = tenants.get(tenant)
      if (counts === undefined) {
        if (tenants.size >= countedMax) return
        counts = { accepted: 0, delivered: 0, suppressed: 0 }
        tenants.set(tenant, counts)
      }
      for (const { status } of events)
        if (status === 'accepted' || status === 'delivered' || status === 'suppressed') counts[status] += 1
    },
    text: () => meter.text(),
  }
}
