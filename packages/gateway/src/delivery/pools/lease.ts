/**
 * The permission to make one call now, with everything its pool needs to take it back. There is one per call, so it
 * is data; the pool decides.
 */
import type { AccountState } from '../../ports/accounts.ts'
import type { Account, Provider, SendResult } from '../../ports.ts'
import { type CountedLease, lateMsMax } from '../accounts/counted-lease.ts'
import type { LeaseList } from '../lease-list.ts'
import type { RetryBudget } from '../retry-budget.ts'
import type { RetryPolicy } from '../retry-policy.ts'

/** The part of a pool that its leases, and the code that holds a lease, call. */
export interface LeasingPool {
  readonly provider: Provider
  readonly retry: RetryPolicy
  /** Timeout of a call, ms. */
  readonly timeoutMs: number
  readonly budget: RetryBudget
  /** Takes back a lease without a call. */
  undo(lease: Lease): void
  judge(lease: Lease, now: number, result: SendResult, tookMs: number): void
  /** True when another account than this one is healthy. */
  hasOther(account: AccountState): boolean
  end(lease: Lease): void
  /** Replaces a lease by one of another account, where one is free. */
  exchange(lease: Lease, now: number): Lease
  /** Leaves the account its turn: the lease was used for a retry. */
  keepTurn(lease: Lease): void
}

export interface LeaseTerms {
  readonly pool: LeasingPool
  readonly holder: AccountState
  /** The instant at which it was given. */
  readonly givenAt: number
  /** The instant at which its call counts in the rate. */
  readonly takenAt: number
  /** True if the call is a probe of a broken account. */
  readonly probe: boolean
}

export class Lease implements CountedLease {
  readonly pool: LeasingPool
  readonly holder: AccountState
  readonly givenAt: number
  readonly probe: boolean
  /** The instant at which its call counts in the rate: given, written if that was later, or arrived. */
  takenAt: number
  /** The instant at which its call was written, where the provider reports it. */
  leftAt: number | undefined
  /** The list of its account that holds it, and its neighbours there (lease-list.ts). */
  list: LeaseList<CountedLease> | undefined
  previous: CountedLease | undefined
  next: CountedLease | undefined

  constructor({ pool, holder, givenAt, takenAt, probe }: LeaseTerms) {
    this.pool = pool
    this.holder = holder
    this.givenAt = givenAt
    this.takenAt = takenAt
    this.probe = probe
  }

  get account(): Account {
    return this.holder.account
  }

  /** Returns the lease without a call: its place in the rate is free again. */
  undo(): void {
    this.pool.undo(this)
  }

  /** Tests directly before the call if it may be made: its account is not out, and its token is good. */
  mayCall(now: number): boolean {
    if (this.probe ? this.holder.isHeld(now) : this.holder.isOut(now)) return false
    const takenAt = this.holder.renew(this.takenAt, now)
    if (takenAt === undefined) return false
    this.takenAt = takenAt
    return true
  }

  /** Tests just before the last bytes are written if the account still counts the call. */
  mayLeave(now: number): boolean {
    return this.holder.mayLeave?.(this, now) ?? true
  }

  /** Counts the call in the rate at the instant at which it was written. */
  left(now: number): void {
    if (now - this.takenAt > lateMsMax) this.takenAt = this.holder.move(this.takenAt, now)
    this.leftAt = now
    this.holder.left(this)
  }

  /** Reports the result of the call and its duration. */
  judge(now: number, result: SendResult, tookMs: number): void {
    this.pool.judge(this, now, result, tookMs)
  }

  /** Tests if another account of the pool is healthy. */
  hasOther(): boolean {
    return this.pool.hasOther(this.holder)
  }

  /** Ends the lease after its call is settled: another one may begin. */
  end(): void {
    this.pool.end(this)
  }
}
