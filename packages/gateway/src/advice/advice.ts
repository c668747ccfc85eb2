/** The forms of an advice: the best frequency, how sure it is, and all that it was concluded from. */
import type { ComplaintLimit } from './complaints.ts'
import type { Interval } from './distributions.ts'
import type { CurveFit, Worth } from './model.ts'

/** The advice for the recipients of one segment alone; undefined where it has too little data. */
export interface Segment {
  readonly name: string
  readonly frequency: number | undefined
  readonly interval: Interval | undefined
}

/** value · engagement − cost · churn at one frequency, with its interval of 90 %. */
interface BenefitPoint {
  readonly frequency: number
  readonly benefit: number
  readonly low: number
  readonly high: number
}

export interface Advice {
  readonly worth: Worth
  /** The best number of messages a week. */
  readonly frequency: number
  /** Its interval, 90 %. */
  readonly interval: Interval
  readonly engagement: CurveFit
  readonly churn: CurveFit
  /** The limit of complaints, where complaints were counted. */
  readonly complaints: ComplaintLimit | undefined
  /** True where the limit of complaints holds the frequency down. */
  readonly isConstrained: boolean
  /** The lowest and highest frequency with enough recipients. */
  readonly observed: Interval
  readonly segments: readonly Segment[]
  readonly warnings: readonly string[]
  readonly benefit: readonly BenefitPoint[]
}

export type Advised = { readonly advice: Advice } | { readonly reasons: readonly string[] }
