/** Account slots in this process: exact, and gone when it ends. */
import { checkOptions } from '../calls.ts'
import { LimitsError } from '../errors.ts'
import type { SlotStore } from '../slot-leases.ts'
import { type ColdStart, coldStarts, SlotShard } from '../slots.ts'

export interface MemorySlotsOptions {
  /**
   * Epoch milliseconds, also what ends leases.
   *
   * @defaultValue Date.now for slots, `performance.now` for the ends of leases
   */
  readonly now?: () => number
  /**
   * New slots `grant` at once, or `wait` until windows of at most 128 slots are over: a process that
   * starts again does not know what it granted a moment ago.
   *
   * @defaultValue 'grant'
   */
  readonly coldStart?: ColdStart
}

/** Account slots in this process. @throws LimitsError `INVALID_ARGUMENT` */
export function memorySlots(options: MemorySlotsOptions = {}): SlotStore {
  const { now, coldStart = 'grant' } = checkOptions(options, 'now', 'coldStart')
  if (now !== undefined && typeof now !== 'function')
    throw new LimitsError('INVALID_ARGUMENT', 'now is a function that returns epoch milliseconds')
  if (!coldStarts.includes(coldStart))
    throw new LimitsError('INVALID_ARGUMENT', `coldStart is one of ${coldStarts.join(', ')}`)
  // Looked up in each call: tests put another Date in its place.
  const clock = now ?? (() => Date.now())
  const monotonicMs = now ?? (() => performance.now())
  const shards = new Map<number, SlotShard>()

  function shardOf(slotMs: number): SlotShard {
    const shard = shards.get(slotMs) ?? new SlotShard(slotMs, coldStart === 'wait')
    shards.set(slotMs, shard)
    return shard
  }

  return {
    monotonicMs,
    async ask({ slotMs, questions, probeMs }) {
      const shard = shardOf(slotMs)
      const sentMs = monotonicMs()
      const grants = shard.ask(questions, clock(), probeMs)
      const endsAtMs = sentMs + shard.restMs
      return grants.map((grant) => ({ ...grant, endsAtMs }))
    },
    async block(slotMs, account, block) {
      shardOf(slotMs).block(account, block)
    },
  }
}
