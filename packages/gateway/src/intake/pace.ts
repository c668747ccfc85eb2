/**
 * Paces intakes by what the pools can carry: while as much waits for a channel as its accounts carry in two seconds, its
 * records stay in the topic. Records in progress count as well, because they will wait as soon as they are accepted. A
 * burst waits in the topic, and not on record.
 */

import type { Channel } from '../model.ts'
import type { Clock, Queue } from '../ports.ts'
import type { RecordedQueue } from './recorded-queue.ts'

export interface IntakePace {
  /**
   * Begins a record of the channel; undefined where it has to stay in its topic. The returned function says that the
   * record is not in progress any more, once.
   */
  begin(channel: Channel): (() => void) | undefined
}

export interface IntakePaceOptions {
  readonly queue: Pick<Queue, 'size'>
  /** The record that several gateways share; absent where the queue holds all that waits. */
  readonly recorded?: RecordedQueue | undefined
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

export function createIntakePace({ queue, recorded, rateOf, clock }: IntakePaceOptions): IntakePace {
  /** Records in progress over all intakes of this process. */
  const inProgress = new Map<Channel, number>()
  const bounds = new Map<
    Channel,
    { readonly max: number; readonly perSecond: number; readonly until: number }
  >()

  function boundOf(channel: Channel): { readonly max: number; readonly perSecond: number } {
    const known = bounds.get(channel)
    const now = clock.now()
    if (known !== undefined && now < known.until) return known
    const perSecond = Math.min(mostMax / aheadSeconds, rateOf(channel) ?? 0)
    const bound = { max: Math.max(leastMax, aheadSeconds * perSecond), perSecond, until: now + rateMs }
    bounds.set(channel, bound)
    return bound
  }

  return {
    begin(channel) {
      const begun = inProgress.get(channel) ?? 0
      const { max, perSecond } = boundOf(channel)
      if (queue.size(channel) + begun >= max) return undefined
      if (recorded !== undefined && recorded.size(channel, perSecond) >= max) return undefined
      recorded?.add(channel)
      inProgress.set(channel, begun + 1)
      return () => void inProgress.set(channel, inProgress.get(channel)! - 1)
    },
  }
}
