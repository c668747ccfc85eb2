/** Metrics of the complaint guard: by category on the default path, by tenant and category on that of the tenants. */
import type { ComplaintReport } from '../reports.ts'
import type { Meter } from './meter.ts'

export interface ComplaintReports {
  /** The categories that the policy in force guards. */
  readonly categories: () => readonly string[]
  /** The categories of tenants that have counts. */
  readonly report: () => readonly ComplaintReport[]
}

/** Measures the worst tenant of each category. */
export function measureComplaints(meter: Meter, { categories, report }: ComplaintReports): void {
  const worst = (
    pick: (each: ComplaintReport) => number,
    best: number,
    worse: (a: number, b: number) => number,
  ) =>
    function* (): Generator<readonly [category: string, value: number]> {
      const found = Map.groupBy(report(), ({ category }) => category)
      for (const category of categories())
        yield [category, (found.get(category) ?? []).map(pick).reduce(worse, best)]
    }
  const bounds = worst(
    ({ bound }) => bound,
    0,
    (a, b) => Math.max(a, b),
  )
  const shares = worst(
    ({ share }) => share,
    1,
    (a, b) => Math.min(a, b),
  )
  meter.gauge(
    'sluice_complaint_rate_bound_ratio',
    'The lower bound of the rate of complaints of a category, of the tenant with the highest.',
    ['category'],
    (set) => {
      for (const [category, bound] of bounds()) set([category], bound)
    },
  )
  meter.gauge(
    'sluice_complaint_throttle_ratio',
    'The share of its departures that the complaint guard leaves a category: 1 for all, 0 in a pause; of the tenant with the least.',
    ['category'],
    (set) => {
      for (const [category, share] of shares()) set([category], share)
    },
  )
}

/** Measures each category of the tenants that are shown. */
export function measureTenantComplaints(
  meter: Meter,
  report: ComplaintReports['report'],
  tenants: () => ReadonlySet<string>,
): void {
  function* shown(): Generator<ComplaintReport> {
    const of = tenants()
    for (const each of report()) if (of.has(each.tenant)) yield each
  }
  meter.gauge(
    'sluice_tenant_complaint_rate_bound_ratio',
    'The lower bound of the rate of complaints of a category of a tenant.',
    ['tenant', 'category'],
    (set) => {
      for (const { tenant, category, bound } of shown()) set([tenant, category], bound)
    },
  )
  meter.gauge(
    'sluice_tenant_complaint_throttle_ratio',
    'The share of its departures that the complaint guard leaves a category of a tenant.',
    ['tenant', 'category'],
    (set) => {
      for (const { tenant, category, share } of shown()) set([tenant, category], share)
    },
  )
}
