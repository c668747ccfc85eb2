/**
 * Paces intakes by what the pools can carry: while as much waits for a channel as its accounts carry in two seconds, its
 * records stay in the topic. Records in progress count as well, because they will wait as soon as they are accepted. A
 * burst waits in the topic, and not on record. While load shedding bounds a pool, its bound counts in place of the
 * accounts' rates: what waited longer would become a dead letter.
 */

import type { Channel } from '../model.ts'
import type { Clock, Queue } from '../ports.ts'
import type { RecordedQueue } from './recorded-queue.ts'

export interface IntakePace {
  /**
   * Begins a record of the channel; undefined where it has to stay in its topic. The returned function says that the
   * record is not in progress any more, once.
   * @param timestamp the instant with which it stands in its topic
   */
  begin(channel: Channel, timestamp: number): (() => void) | undefined
}

/** The load shedding of a pool, which is told of its topics, because the pace hides their demand. */
interface PacedShedding {
  /** True while accounts are out. */
  readonly isActive: boolean
  /** Computes the admitted calls per second. */
  admitted(now: number): number
  /** Counts a record that is taken, by its timestamp. */
  taken(now: number, timestamp: number): void
  /** Says that a record stays in its topic. */
  heldBack(now: number): void
}

export interface IntakePaceOptions {
  readonly queue: Pick<Queue, 'size'>
  /** The record that several gateways share; absent where the queue holds all that waits. */
  readonly recorded?: RecordedQueue | undefined
  /** Calls per second of the accounts that can be called now; undefined where none can. */
  readonly rateOf: (channel: Channel) => number | undefined
  /** The load shedding of the pool that serves the channel first. */
  readonly sheddingOf: (channel: Channel) => PacedShedding | undefined
  readonly clock: Pick<Clock, 'now' | 'aheadMs'>
}

const aheadSeconds = 2
/** The bound of what waits for a channel, with what is in progress for it, is no lower, however slow its accounts are. */
const leastMax = 1_000
/** The same while load shedding bounds its accounts: a breaker needs a call to find them well. */
const leastReduced = 25
/** That bound is no higher, also where the accounts have no rate. */
const mostMax = 10_000
/** A rate is read so often, ms: it follows from the state of each account. */
const rateMs = 100

export function createIntakePace({
  queue,
  recorded,
  rateOf,
  sheddingOf,
  clock,
}: IntakePaceOptions): IntakePace {
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
    const shedding = sheddingOf(channel)
    const max =
      shedding?.isActive === true
        ? Math.max(leastReduced, aheadSeconds * Math.min(perSecond, shedding.admitted(now)))
        : Math.max(leastMax, aheadSeconds * perSecond)
    const bound = { max, perSecond, until: now + rateMs }
    bounds.set(channel, bound)
    return bound
  }

  return {
    begin(channel, timestamp) {
      const begun = inProgress.get(channel) ?? 0
      const { max, perSecond } = boundOf(channel)
      const shedding = sheddingOf(channel)
      const isFull = queue.size(channel) + begun >= max
      if (isFull || (recorded !== undefined && recorded.size(channel, perSecond) >= max)) {
        shedding?.heldBack(clock.now())
        return undefined
      }
      recorded?.add(channel)
      shedding?.taken(clock.now(), timestamp - (clock.aheadMs?.() ?? 0))
      inProgress.set(channel, begun + 1)
      return () => void inProgress.set(channel, inProgress.get(channel)! - 1)
    },
  }
}
