/**
 * Paces intakes by what the pools can carry: while as much waits for a channel as its accounts carry in two seconds, its
 * records stay in the topic. A burst waits there, and not on record.
 */

import type { Channel } from '../model.ts'
import type { Clock, Queue } from '../ports.ts'

export interface IntakePace {
  /** True while no record of the channel is taken. A channel that is none is never full. */
  isFull(channel: Channel): boolean
}

export interface IntakePaceOptions {
  readonly queue: Pick<Queue, 'size'>
  /** Calls per second of the accounts that can be called now; undefined where none can. */
  readonly rateOf: (channel: Channel) => number | undefined
  readonly clock: Pick<Clock, 'now'>
}

const aheadSeconds = 2
/** So many may wait for each channel, however slow its accounts are. */
const leastMax = 1_000
/** So many at most, also where no rate is written. */
const mostMax = 10_000
/** A rate is read so often, ms: it follows from the state of each account. */
const rateMs = 100

export function createIntakePace({ queue, rateOf, clock }: IntakePaceOptions): IntakePace {
  const bounds = new Map<Channel, { readonly max: number; readonly until: number }>()

  function maxOf(channel: Channel): number {
    const known = bounds.get(channel)
    const now = clock.now()
    if (known !== undefined && now < known.until) return known.max
    const max = Math.min(mostMax, Math.max(leastMax, aheadSeconds * (rateOf(channel) ?? 0)))
    bounds.set(channel, { max, until: now + rateMs })
    return max
  }

  return { isFull: (channel) => queue.size(channel) >= maxOf(channel) }
}
