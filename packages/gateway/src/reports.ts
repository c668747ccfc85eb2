/**
 * Reports of parts of the gateway for the routes, the metrics, the log and explanations: pools and their accounts, the
 * complaint guard, and intakes. Plain data.
 */
import type { Channel } from './model.ts'

// ---- pools and accounts
//
// Reports of pools and their accounts: what the routes, the metrics and the explanations read of delivery.

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

/** The use of one window of an account's rate. */
export interface WindowUse {
  readonly window: string
  /** The window is kept this much longer than written, ms. */
  readonly marginMs: number
  readonly used: number
  readonly max: number
  /** The instant at which the window has a place again; `null` while it has one. */
  readonly freesAt: number | null
}

/** A change of an account. */
export interface AccountChanged {
  readonly at: number
  readonly change: 'blocked' | 'opened' | 'closed' | 'resized' | 'held' | 'released'
  /** The end of a block, of a cool-down, of a hold. */
  readonly until?: number
  /** The Retry-After of a block as received, or the new maximum of concurrent calls. */
  readonly detail?: string
}

/** Calls of an account that ended in one minute, by result. */
export interface AccountMinute {
  /** The beginning of the minute. */
  readonly at: number
  readonly delivered: number
  readonly failed: number
  readonly rateLimited: number
}

/** An account as operators look at it; more work to gather than `AccountReport`. */
export interface AccountDetails extends AccountReport {
  /** The instant at which it went out; `null` while it is in. */
  readonly outSince: number | null
  /** The Retry-After of its block as received; `null` without one, and after a restart. */
  readonly retryAfter: string | null
  readonly inFlight: number
  /** Every window of its rate; none where it has no limit. */
  readonly windows: readonly WindowUse[]
  /** Quantiles of the calls of this minute and the one before; `null` where there were none. */
  readonly p50Ms: number | null
  readonly p99Ms: number | null
  /** Calls that ended within the last 60 s. */
  readonly perMinute: Omit<AccountMinute, 'at'>
}

export interface PoolDetails extends Omit<PoolReport, 'accounts'> {
  readonly accounts: readonly AccountDetails[]
  /** Calls per second that the accounts that are in may make; `null` where one of them has no limit. */
  readonly carries: number | null
  /** Calls per second that the pool admits now; `null` where nothing bounds it. */
  readonly admits: number | null
  /** Notifications of the channel that are due and wait for an account of any of its pools. */
  readonly waiting: number
  /** Retries that the pool may make now. */
  readonly retryBudget: number
}

/** The recent past of one account. */
export interface AccountPast {
  /** At most 200, newest first. */
  readonly changes: readonly AccountChanged[]
  /** The minutes of the last hour in which calls ended, oldest first. */
  readonly minutes: readonly AccountMinute[]
}

/** The pools as operators look at them. */
export interface PoolsView {
  /** Asks the other processes of a fleet for their calls under way; to be awaited before a reading. @defaultValue there are none */
  refresh?(): Promise<void>
  details(): readonly PoolDetails[]
  past(channel: Channel, account: string): AccountPast | undefined
}

// ---- the complaint guard
//
// Reports of the complaint guard about a category of a tenant: its counts, its stage, and each change. Plain data.

/** Delivered notifications and complaints in the rolling window. */
export interface ComplaintCounts {
  readonly delivered: number
  readonly complained: number
}

/** `free`: nothing waits. `slowed`: departures are paced. `paused`: none leaves. */
export type ComplaintStage = 'free' | 'slowed' | 'paused'

/** The present state of one category of one tenant. */
export interface ComplaintReport extends ComplaintCounts {
  readonly tenant: string
  readonly category: string
  readonly stage: ComplaintStage
  /** The lower bound of the rate of complaints, from 0 to 1. */
  readonly bound: number
  /** The share of departures that is left: 1 where it is free, 0 where it is paused. */
  readonly share: number
  /** The instant since which it is in this stage; absent where it is free. */
  readonly since?: number
  /** The instant at which a pause ends if nothing more happens. */
  readonly until?: number
}

/** A category has come from one stage to another. */
export interface ComplaintChange {
  readonly before: ComplaintStage
  readonly now: ComplaintReport
  /** True for a stage that was on record already: at the start of this process, or because another one decided it. */
  readonly isAdopted?: boolean
}

// ---- intakes
//
// The figures of intakes, for metrics, readiness and the log.

/** One intake of this process. */
export interface IntakeReport {
  /** The topic that it takes, and the consumer group in which it does. */
  readonly topic: string
  readonly group: string
  /** The instant since which no broker answers, epoch ms; undefined while they do. */
  readonly awaySince: number | undefined
  /** The partitions that this process has. */
  readonly partitions: readonly {
    readonly partition: number
    /** Every record before this offset is done. */
    readonly next: number
    /** Records behind it, as of the last answer. */
    readonly lag: number
    /** A record waits for room, and the partition with it. */
    readonly isPaused: boolean
  }[]
  /** Records that this process has taken since its start, by outcome. */
  readonly counts: Readonly<Record<'accepted' | 'repeated' | 'poison', number>>
}
