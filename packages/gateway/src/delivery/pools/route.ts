/**
 * The pools of a channel in the order of fallback. The second is entered only while accounts of the first are out and
 * what is left of it has no room, and within its own limits; a pool that is whole and merely busy is waited for.
 */
import type { Channel, DeadCause, Notification } from '../../model.ts'
import type { Lease } from './lease.ts'
import type { Pool } from './pool.ts'

/** For so long after two tenants took turns both are taken to be there. */
const sharedMs = 10_000

export class Route {
  readonly channel: Channel
  readonly pools: readonly Pool[]
  readonly #first: Pool
  /** Whose notification left last. */
  #tenant: string | undefined
  /** Until then several tenants are taken to want its places. */
  #sharedUntil = Number.NEGATIVE_INFINITY

  constructor(pools: readonly Pool[]) {
    this.#first = pools[0]!
    this.channel = this.#first.channel
    this.pools = pools
  }

  /** How long what cannot leave waits while accounts are out; `undefined` where nothing is shed. */
  get shedAfterMs(): number | undefined {
    return this.#first.sheds ? this.#first.shedAfterMs : undefined
  }

  /** Calls per second of all accounts that are left; `undefined` where one has no limit. */
  get ratePerSecond(): number | undefined {
    return this.#first.ratePerSecond
  }

  /** These are about to leave. */
  pulled(notifications: readonly Notification[], now: number): void {
    for (const { tenant } of notifications) {
      if (tenant === this.#tenant) continue
      if (this.#tenant !== undefined) this.#sharedUntil = now + sharedMs
      this.#tenant = tenant
    }
  }

  /** Up to `max` permissions to call now, the first of which are for as many critical ones. */
  lease(now: number, max: number, critical: number): Lease[] {
    for (const pool of this.pools) pool.share(now < this.#sharedUntil)
    const leases = this.#first.lease(now, max, critical)
    if (this.pools.length === 1) return leases
    for (const [index, pool] of this.pools.entries()) {
      if (leases.length >= max) break
      if (index === 0) continue
      if (this.pools[index - 1]!.condition(now) === 'whole') break
      leases.push(...pool.lease(now, max - leases.length, Math.max(0, critical - leases.length)))
    }
    return leases
  }

  /** A lease of another account in place of this one, where one is free. */
  exchange(lease: Lease, now: number): Lease {
    const other = lease.pool.exchange(lease, now)
    if (other !== lease) return other
    for (const pool of this.pools) {
      if (pool === lease.pool) continue
      const [found] = pool.lease(now, 1)
      if (found === undefined) continue
      lease.undo()
      return found
    }
    return lease
  }

  /** Whether somebody else could carry what this lease could not. */
  hasOther(lease: Lease, now: number): boolean {
    if (lease.hasOther()) return true
    return this.pools.some((pool) => pool !== lease.pool && hasHealthy(pool, now))
  }

  /** The earliest instant at which something may leave; `undefined` when only an ending call can free it. */
  freeAt(now: number): number | undefined {
    let earliest: number | undefined
    for (const pool of this.pools) {
      const free = pool.freeAt(now)
      if (free !== undefined && (earliest === undefined || free < earliest)) earliest = free
      if (pool.condition(now) === 'whole') break
    }
    return earliest
  }

  /**
   * Whether what was tried in vain may be tried once more now. While calls fail it needs a place in the budget; after
   * an incident what waits must not trickle back at the budget's least when there is room for all of it.
   */
  mayRepeat(now: number): boolean {
    const { budget } = this.#first
    return budget.isCalm(now) || budget.take(now)
  }

  asked(now: number, count: number): void {
    this.#first.shedding.asked(now, count)
  }

  /** Whether accounts are out, so that not everything can leave. */
  isReduced(now: number): boolean {
    return this.#first.condition(now) !== 'whole'
  }

  isEmpty(now: number): boolean {
    return !this.pools.some((pool) => hasHealthy(pool, now))
  }

  /** Why what waits now cannot leave. */
  cause(now: number): DeadCause {
    if (!this.isEmpty(now)) return 'shed'
    return this.pools.every((pool) => pool.condition(now) === 'broken') ? 'circuit_open' : 'pool_blocked'
  }
}

function hasHealthy(pool: Pool, now: number): boolean {
  const condition = pool.condition(now)
  return condition === 'whole' || condition === 'reduced'
}
