/** The part of a lease that its account counts. */
import type { Linked } from '../lease-list.ts'

export interface CountedLease extends Linked<CountedLease> {
  /** The instant at which its call counts in the rate, epoch ms. */
  takenAt: number
  /** The instant at which its call was written, epoch ms; undefined until the provider reports it. */
  leftAt: number | undefined
}

/** A call written later than it was counted by up to this is not counted again, ms: a quarter of the usual margin. */
export const lateMsMax = 5
