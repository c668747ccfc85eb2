/** Reports of the complaint guard about a category of a tenant: its counts, its stage, and each change. Plain data. */

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
