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
  /** `now` measures the work: `monotonic` gains an hour where the wall clock is set on by one, and the rest is a multiple. */
  readonly clock: Pick<Clock, 'now'>
  readonly onError: (what: string, error: unknown) => void
}

const countMs = 1_000
const restShare = 10

/** The number that was due at an instant; it falls by what the accounts carry. */
interface Level {
  readonly due: number
  readonly at: number
}

export function createRecordedQueue({ store, clock, onError }: RecordedQueueOptions): RecordedQueue {
  const levels = new Map<Channel, Level>()
  /** The records that are begun while the record is counted: its answer may have them or not. */
  let meanwhile: Map<Channel, number> | undefined
  let nextAt = Number.NEGATIVE_INFINITY

  async function count(begun: Map<Channel, number>): Promise<void> {
    const at = clock.now()
    meanwhile = begun
    try {
      // The counts by channel matter here, and no instant.
      const rows = await store.backlog({ secondsFrom: 0, secondsUntil: 0, minutesUntil: 0 })
      for (const channel of levels.keys()) {
        const own = rows.filter((row) => row.kind === 'queued' && row.channel === channel)
        const due = own.reduce((sum, row) => sum + row.count, begun.get(channel) ?? 0)
        levels.set(channel, { due, at })
      }
    } catch (error) {
      onError('count what is due', error)
    } finally {
      meanwhile = undefined
      nextAt = at + Math.max(countMs, restShare * (clock.now() - at))
    }
  }

  return {
    size(channel, perSecond) {
      const now = clock.now()
      if (meanwhile === undefined && now >= nextAt) void count(new Map())
      const { due, at } = levels.get(channel) ?? { due: 0, at: now }
      const left = Math.max(0, due - (perSecond * (now - at)) / 1_000)
      levels.set(channel, { due: left, at: now })
      return left
    },
    add(channel) {
      const { due, at } = levels.get(channel) ?? { due: 0, at: clock.now() }
      levels.set(channel, { due: due + 1, at })
      meanwhile?.set(channel, (meanwhile.get(channel) ?? 0) + 1)
    },
  }
}
