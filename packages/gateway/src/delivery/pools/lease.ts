/**
 * The permission to make one call now, with all that its pool must know to take it back. There is one for each call, so
 * it is data; what becomes of it the pool decides.
 */
import type { Account, Provider, SendResult } from '../../ports.ts'
import { type CountedLease, lateMsMax, type PooledAccount } from '../accounts/account.ts'
import type { LeaseList } from '../lease-list.ts'
import type { RetryBudget } from '../retry-budget.ts'
import type { RetryPolicy } from '../retry-policy.ts'

/** The part of a pool that its leases, and the code that holds a lease, call. */
export interface LeasingPool {
  readonly provider: Provider
  readonly retry: RetryPolicy
  /** How long one call may take, ms. */
  readonly timeoutMs: number
  readonly budget: RetryBudget
  /** Takes a lease back whose call was not made. */
  undo(lease: Lease): void
  judge(lease: Lease, now: number, result: SendResult, tookMs: number): void
  /** True when another account than this one is healthy. */
  hasOther(account: PooledAccount): boolean
  end(lease: Lease): void
  /** Replaces a lease by one of another account, where one is free. */
  exchange(lease: Lease, now: number): Lease
  /** Leaves the account its turn: the lease was used for a retry. */
  keepTurn(lease: Lease): void
}

export interface LeaseTerms {
  readonly pool: LeasingPool
  readonly holder: PooledAccount
  /** When it was given. */
  readonly givenAt: number
  /** When its call counts in the rate. */
  readonly takenAt: number
  /** Whether it is to tell whether a broken account works again. */
  readonly probe: boolean
}

export class Lease implements CountedLease {
  readonly pool: LeasingPool
  readonly holder: PooledAccount
  readonly givenAt: number
  readonly probe: boolean
  /** When its call counts in the rate: when it was given, when it left if that was later, or by when it arrived. */
  takenAt: number
  /** When its call left, where the provider tells it. */
  leftAt: number | undefined
  /** Where its account has put it, and who stands beside it there (lease-list.ts). */
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

  /** The call did not happen: its place in the rate is free again. */
  undo(): void {
    this.pool.undo(this)
  }

  /** The call has left only now: here it counts in the rate. */
  left(now: number): void {
    if (now - this.takenAt > lateMsMax) this.takenAt = this.holder.move(this.takenAt, now)
    this.leftAt = now
    this.holder.left(this)
  }

  /** What the call came to, and how long it took. */
  judge(now: number, result: SendResult, tookMs: number): void {
    this.pool.judge(this, now, result, tookMs)
  }

  /** Whether another account of the pool is healthy. */
  hasOther(): boolean {
    return this.pool.hasOther(this.holder)
  }

  /** The call is settled: another one may begin. */
  end(): void {
    this.pool.end(this)
  }
}
