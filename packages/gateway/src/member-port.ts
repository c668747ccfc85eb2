/** The port that knows the processes of a fleet: which one this is, how many there are, and which does a chore for all. */
import type { Channel } from './model.ts'

/**
 * A chore that one process does for all: pruning, the search for orphans, closing digests, accepting batches in the
 * background, deciding what complaints slow and pause, trying waiting feedback again, writing the
 * delivery log, repairing the queues of a broker, the automatic redrive of a channel, the judging of the accounts of a pool.
 */
export type Role =
  | 'retention'
  | 'orphans'
  | 'digests'
  | 'jobs'
  | 'complaints'
  | 'feedback'
  | 'delivery-log'
  | 'outgoing'
  | `redrive:${Channel}`
  | `judge:${string}`

export interface Members {
  /** Names this process: no other process has the same name, and none has had it before. */
  readonly id: string
  /** The number of processes that are alive, this one included: at least 1. A dead one is counted until that is known. */
  count(): number
  /**
   * True while this process holds the role, for which it applies with the first question. To be asked directly before
   * each piece of the work. For a moment two processes may hold a role, for example while one of them is stopped: the
   * writes of a chore must be such that this does no harm.
   */
  holds(role: Role): boolean
  /**
   * Calls the listener whenever another process was found dead, with its name: what it held can be taken over. It may be
   * told of one death several times, also of a process that has ended in order, and each process is told of it. A death
   * before the start of this one is not told: a start takes over what there is. The returned function ends it.
   */
  onDeath(listener: (gone: readonly string[]) => void): () => void
  /** Gives the roles to the other processes; from now on this process holds none. */
  close(): Promise<void>
}
