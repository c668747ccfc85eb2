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

/**
 * A call that is not written yet is counted again and again, so that others in a shared state do not use its place. If it
 * was not counted for so long, ms, its process was stopped or the state was away, and it is not written any more.
 */
export const uncountedMsMax = 250
