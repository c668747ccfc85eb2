/** Reports of pools and their accounts: what the routes, the metrics and the explanations read of delivery. */
import type { Channel } from './model.ts'

export interface PoolReport {
  readonly channel: Channel
  readonly provider: string
  readonly rate: string
  readonly accounts: readonly AccountReport[]
}

/** Counters of a pool for the metrics, since the start of this process. */
export interface PoolCounts {
  readonly channel: Channel
  readonly provider: string
  /** Changes of its accounts: blocked by a 429, breaker opened or closed, concurrency changed. */
  readonly changes: Readonly<Record<'blocked' | 'opened' | 'closed' | 'resized', number>>
  /** The number of retries that the pool may make now. */
  readonly retryBudget: number
}

/** The load of a pool now, for the metrics. */
export interface PoolLoad {
  /** Calls per second of all accounts together; `undefined` where one has no limit. */
  readonly ratePerSecond: number | undefined
  /** The share of that rate that the accounts use after 429s, from 0 to 1. */
  readonly learnedRatio: number
  /** Calls per second that the pool admits now; `undefined` where nothing bounds it. */
  readonly admittedPerSecond: number | undefined
  /** Calls that are under way. */
  readonly inFlight: number
}

/** The reason for an account's absence from its pool: a 429, a breaker that is not closed, a hold of an operator. */
export type OutBecause = 'rate_limited' | 'breaker' | 'hold'

/**
 * Account status. `blocked`: by a 429. `open`: by its breaker. `half_open`: one probe is in flight. `held`: by an
 * operator.
 */
export type AccountStatus = 'healthy' | 'blocked' | 'open' | 'half_open' | 'held'

export interface AccountReport {
  readonly id: string
  readonly rate: string
  /** Calls in the narrowest window ending now. */
  readonly used: number
  readonly status: AccountStatus
  /** The end of a block by a 429; `null` where there is none. */
  readonly blockedUntil: number | null
  /**
   * The instant until which the account is out, whatever the reason; `null` while it is in. Not before now, also
   * while a probe is in flight.
   */
  readonly outUntil: number | null
  /** The reason that keeps it out longest; `null` while it is in. */
  readonly outBecause: OutBecause | null
  /** The rate that the provider was last seen to allow, calls per second. */
  readonly learnedRate: number | null
  /** The maximum number of concurrent calls. */
  readonly concurrency: number
}
