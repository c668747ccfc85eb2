/**
 * The accounts that serve a channel. A lease is the permission to make one call now: the account has a place in
 * every window of its rate, is not blocked, and has a call to spare. Accounts take turns.
 */
import type { Window } from '@sluice/limits'
import type { AccountReport, PoolReport } from '../doors.ts'
import type { Channel } from '../model.ts'
import type { Account, Provider } from '../ports.ts'
import { createRollingRate, type RollingRate } from './rate.ts'
import { defaultRetryPolicy, type RetryPolicy } from './retry.ts'

export interface AccountOptions {
  readonly account: Account
  /** Windows of its rate; none means unlimited. */
  readonly windows: readonly Window[]
  /** As the configuration writes it, for people. */
  readonly rate: string
  /** Calls under way at most. */
  readonly concurrencyMax: number
}

export interface PoolOptions {
  readonly channel: Channel
  readonly provider: Provider
  readonly accounts: readonly AccountOptions[]
  /** Departures bunch on the way: each window is kept this much longer. @defaultValue 20 ms */
  readonly marginMs: number
  readonly retry?: RetryPolicy
  /** How long a call may take. @defaultValue 15_000 ms */
  readonly timeoutMs?: number
}

export interface Lease {
  readonly account: Account
  /** The call did not happen: its place in the rate is free again. */
  undo(): void
  /** The call has left only now: here it counts in the rate. */
  left(now: number): void
  /** The call has ended. */
  end(): void
  block(until: number): void
}

class PooledAccount {
  readonly options: AccountOptions
  readonly rate: RollingRate
  inFlight = 0
  blockedUntil = 0

  constructor(options: AccountOptions, marginMs: number) {
    this.options = options
    this.rate = createRollingRate(options.windows, marginMs)
  }

  /** When it may make a call; `undefined` while all its calls are under way. */
  freeAt(now: number): number | undefined {
    if (this.inFlight >= this.options.concurrencyMax) return undefined
    return this.rate.freeAt(Math.max(now, this.blockedUntil))
  }

  report(now: number): AccountReport {
    const blocked = this.blockedUntil > now
    return {
      id: this.options.account.id,
      rate: this.options.rate,
      used: this.rate.used(now),
      status: blocked ? 'blocked' : 'healthy',
      blockedUntil: blocked ? this.blockedUntil : null,
      learnedRate: null,
      concurrency: this.options.concurrencyMax,
    }
  }
}

export class Pool {
  readonly channel: Channel
  readonly provider: Provider
  readonly retry: RetryPolicy
  readonly timeoutMs: number
  readonly #accounts: readonly PooledAccount[]
  #turn = 0

  constructor(options: PoolOptions) {
    this.channel = options.channel
    this.provider = options.provider
    this.retry = options.retry ?? defaultRetryPolicy
    this.timeoutMs = options.timeoutMs ?? 15_000
    this.#accounts = options.accounts.map((account) => new PooledAccount(account, options.marginMs))
  }

  /** Up to `max` permissions to call now. */
  lease(now: number, max: number): Lease[] {
    const leases: Lease[] = []
    for (let passed = 0; passed < this.#accounts.length && leases.length < max; ) {
      const account = this.#accounts[this.#turn % this.#accounts.length]!
      this.#turn = (this.#turn + 1) % this.#accounts.length
      const free = account.freeAt(now)
      if (free === undefined || free > now) {
        passed += 1
        continue
      }
      passed = 0
      leases.push(leaseOf(account, account.rate.take(now)))
      account.inFlight += 1
    }
    return leases
  }

  /** The earliest instant at which a rate or block frees an account; `undefined` when only an ending call can. */
  freeAt(now: number): number | undefined {
    let earliest: number | undefined
    for (const account of this.#accounts) {
      const free = account.freeAt(now)
      if (free !== undefined && (earliest === undefined || free < earliest)) earliest = free
    }
    return earliest
  }

  get inFlight(): number {
    return this.#accounts.reduce((sum, account) => sum + account.inFlight, 0)
  }

  async warm(): Promise<void> {
    const warmed = await Promise.allSettled(
      this.#accounts.map((account) => this.provider.warm?.(account.options.account)),
    )
    for (const result of warmed) {
      // A server that is away now may be back at the first message; a key that cannot be read stays unreadable.
      if (result.status === 'rejected' && (result.reason as { code?: string }).code === 'INVALID_CONFIG') {
        throw result.reason
      }
    }
  }

  report(now: number): PoolReport {
    const accounts = this.#accounts.map((account) => account.report(now))
    return {
      channel: this.channel,
      provider: this.provider.name,
      rate: [...new Set(accounts.map((account) => account.rate))].join(' · '),
      accounts,
    }
  }
}

/** What left later than it was counted by less than this is not counted again: a quarter of the usual margin. */
export const lateMsMax = 5

function leaseOf(account: PooledAccount, instant: number): Lease {
  let takenAt = instant
  return {
    account: account.options.account,
    undo() {
      account.rate.undo(takenAt)
      account.inFlight -= 1
    },
    left(now) {
      if (now - takenAt > lateMsMax) takenAt = account.rate.move(takenAt, now)
    },
    end() {
      account.inFlight -= 1
    },
    block(until) {
      account.blockedUntil = Math.max(account.blockedUntil, until)
    },
  }
}
