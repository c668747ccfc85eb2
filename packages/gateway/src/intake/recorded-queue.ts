/**
 * Estimates how much is due for each channel on a record that several gateways share: most of it is in the queue of no
 * process, or of another one. The record is counted each second at most, and a count takes a tenth of the time at most. In
 * between, what was begun here counts besides, and what the accounts carry in that time counts as left.
 */
import type { BacklogSource } from '../backlog-cell.ts'
import type { Channel } from '../model.ts'
import type { Clock } from '../ports.ts'

export interface RecordedQueue {
  /** Notifications of the channel that are due; counts the record again where that was long ago. */
  size(channel: Channel, perSecond: number): number
  /** Counts a record that is begun here. */
  add(channel: Channel): void
}

export interface RecordedQueueOptions {
  readonly store: BacklogSource
  readonly clock: Pick<Clock, 'now' | 'monotonic'>
  readonly onError: (what: string, error: unknown) => void
}

const countMs = 1_000
const restShare = 10

/** One count, and the records that were begun since it began. */
interface Count {
  readonly at: number
  readonly due: ReadonlyMap<string, number>
  readonly begun: Map<Channel, number>
}

export function createRecordedQueue({ store, clock, onError }: RecordedQueueOptions): RecordedQueue {
  let last: Count = { at: 0, due: new Map(), begun: new Map() }
  /** The records that are begun while the record is counted: its answer may have them or not. */
  let meanwhile: Map<Channel, number> | undefined
  let nextAt = Number.NEGATIVE_INFINITY

  async function count(begun: Map<Channel, number>): Promise<void> {
    const at = clock.monotonic()
    meanwhile = begun
    try {
      const due = new Map<string, number>()
      for (const { kind, channel, count } of await store.backlog())
        if (kind === 'queued') due.set(channel, (due.get(channel) ?? 0) + count)
      last = { at, due, begun }
    } catch (error) {
      onError('count what is due', error)
    } finally {
      meanwhile = undefined
      nextAt = at + Math.max(countMs, restShare * (clock.monotonic() - at))
    }
  }

  const addTo = (begun: Map<Channel, number>, channel: Channel): void =>
    void begun.set(channel, (begun.get(channel) ?? 0) + 1)

  return {
    size(channel, perSecond) {
      const now = clock.monotonic()
      if (meanwhile === undefined && now >= nextAt) void count(new Map())
      const left = (perSecond * (now - last.at)) / 1_000
      return Math.max(0, (last.due.get(channel) ?? 0) + (last.begun.get(channel) ?? 0) - left)
    },
    add(channel) {
      addTo(last.begun, channel)
      if (meanwhile !== undefined) addTo(meanwhile, channel)
    },
  }
}
