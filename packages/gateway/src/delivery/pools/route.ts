/**
 * The pools of a channel in fallback order. The second is used only while accounts of the first are out and the rest
 * of it has no room, and within its own limits; a pool that is whole and merely busy is waited for.
 */
import type { Channel, DeadCause, Notification } from '../../model.ts'
import type { Lease } from './lease.ts'
import type { Pool } from './pool.ts'

/** Time for which two tenants that took turns are both taken to be active, ms. */
const sharedMs = 10_000
/** An account of several processes is free when its tokens have been asked for: so soon at most, ms. */
const soonMs = 100

export class Route {
  readonly channel: Channel
  readonly pools: readonly Pool[]
  readonly #first: Pool
  /** Tenant of the last notification taken. */
  #tenant: string | undefined
  /** Several tenants are taken to share the route until this instant. */
  #sharedUntil = Number.NEGATIVE_INFINITY

  constructor(pools: readonly Pool[]) {
    this.#first = pools[0]!
    this.channel = this.#first.channel
    this.pools = pools
  }

  /** Maximum queue time while accounts are out; `undefined` where nothing is shed. */
  get shedAfterMs(): number | undefined {
    return this.#first.sheds ? this.#first.shedAfterMs : undefined
  }

  /** Calls per second of the first pool; `undefined` where one of its accounts has no limit. */
  get ratePerSecond(): number | undefined {
    return this.#first.ratePerSecond
  }

  /** Records notifications that are about to be sent. */
  pulled(notifications: readonly Notification[], now: number): void {
    for (const { tenant } of notifications) {
      if (tenant === this.#tenant) continue
      if (this.#tenant !== undefined) this.#sharedUntil = now + sharedMs
      this.#tenant = tenant
    }
  }

  /** Gives up to `max` leases, the first `critical` of them for critical notifications. */
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

  /** Exchanges the lease for one of another account, where one is free. */
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

  /** Tests if another account could carry what this lease could not. */
  hasOther(lease: Lease, now: number): boolean {
    if (lease.hasOther()) return true
    return this.pools.some((pool) => pool !== lease.pool && hasHealthy(pool, now))
  }

  /**
   * Returns the earliest instant at which a call may go; `undefined` when only the end of a call can free one.
   * @param hasCritical true if a critical notification waits: it may use the places that are kept
   */
  freeAt(now: number, hasCritical = false): number | undefined {
    let earliest: number | undefined
    for (const pool of this.pools) {
      const free = pool.freeAt(now, hasCritical)
      if (free !== undefined && (earliest === undefined || free < earliest)) earliest = free
      if (pool.condition(now) === 'whole') break
    }
    return earliest
  }

  /**
   * Tests if a dead letter may be retried now. While calls fail it needs a place in the retry budget; after an
   * incident dead letters must not trickle back at the budget's minimum when there is room for all.
   */
  mayRepeat(now: number): boolean {
    const { budget } = this.#first
    return budget.isCalm(now) || budget.take(now)
  }

  asked(now: number, count: number): void {
    this.#first.shedding.asked(now, count)
  }

  /**
   * Tests if an account is free that the first pool would let be called: what waits then waits for this gateway, whose
   * dead letters would leave no sooner.
   */
  hasUnused(now: number): boolean {
    // The second question asks for tokens of accounts that several processes call.
    if (!this.#first.shedding.hasUnused(now)) return false
    const free = this.#first.freeAt(now)
    return free !== undefined && free <= now + soonMs
  }

  /** Tests if accounts are out, so that not every notification can leave. */
  isReduced(now: number): boolean {
    return this.#first.condition(now) !== 'whole'
  }

  isEmpty(now: number): boolean {
    return !this.pools.some((pool) => hasHealthy(pool, now))
  }

  /** Returns the earliest end of the holds where an operator holds every account; `undefined` where one may carry. */
  heldUntil(now: number): number | undefined {
    const accounts = this.pools.flatMap((pool) => pool.report(now).accounts)
    if (accounts.length === 0 || accounts.some(({ status }) => status !== 'held')) return undefined
    return Math.min(...accounts.map(({ outUntil }) => outUntil ?? now))
  }

  /** Returns the cause of death of notifications that cannot leave now. */
  cause(now: number): DeadCause {
    if (!this.isEmpty(now)) return 'shed'
    return this.pools.every((pool) => pool.condition(now) === 'broken') ? 'circuit_open' : 'pool_blocked'
  }
}

function hasHealthy(pool: Pool, now: number): boolean {
  const condition = pool.condition(now)
  return condition === 'whole' || condition === 'reduced'
}
