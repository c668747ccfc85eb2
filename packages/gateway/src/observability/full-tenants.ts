/**
 * Follows the tenants that reached a bound of what may wait. A tenant is full from the first request that is refused
 * for it until there is room again, which is looked for each second; both ends are one line of the log.
 */
import type { Clock } from '../ports.ts'
import type { Ledger } from '../stages.ts'
import type { Log } from './log-events.ts'

type Bound = keyof ReturnType<Ledger['occupancy']>

export interface FullTenantsOptions {
  readonly log: Log
  readonly clock: Pick<Clock, 'now' | 'at'>
  readonly occupancy: Ledger['occupancy']
  readonly maxOf: (tenant: string, bound: Bound) => number
}

export interface FullTenants {
  /** Notes that a request was refused because the tenant is full. */
  note(tenant: string, bound: Bound): void
  counts(): Readonly<Record<Bound, number>>
  stop(): void
}

const everyMs = 1_000
/** Tenants that are followed at most; further ones are refused without a line. */
const followedMax = 1_000
/** Room is there again when a twentieth of the bound is free: at the bound itself a line would follow a line. */
const freeShare = 0.05

export function createFullTenants({ log, clock, occupancy, maxOf }: FullTenantsOptions): FullTenants {
  const full = new Map<string, { readonly tenant: string; readonly bound: Bound }>()
  let disarm: (() => void) | undefined

  function look(): void {
    disarm = undefined
    for (const [key, { tenant, bound }] of full) {
      const count = occupancy(tenant)[bound]
      if (count > maxOf(tenant, bound) * (1 - freeShare)) continue
      full.delete(key)
      log.info({ event: 'tenant.full', tenant, bound, count, full: false })
    }
    arm()
  }

  function arm(): void {
    if (full.size > 0) disarm ??= clock.at(clock.now() + everyMs, look)
  }

  return {
    note(tenant, bound) {
      const key = `${bound} ${tenant}`
      if (full.has(key) || full.size >= followedMax) return
      full.set(key, { tenant, bound })
      log.warn({ event: 'tenant.full', tenant, bound, count: occupancy(tenant)[bound], full: true })
      arm()
    },
    counts() {
      const counts = { queue: 0, waiting: 0, bytes: 0 }
      for (const { bound } of full.values()) counts[bound] += 1
      return counts
    },
    stop: () => disarm?.(),
  }
}
