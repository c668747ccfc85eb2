/**
 * Commits the results of one tick of the event loop together, in batches. A batch is one change of the ledger: one
 * message to the store's worker and one promise for up to hundreds of results. A change is written whole or not at
 * all, so where one result meets a record that has moved on, the others are written without it. A result that a
 * provider has confirmed is retried until it is stored, however long the store takes to recover.
 */

import type { SluiceError } from '../errors.ts'
import type { Move, Notification } from '../model.ts'
import type { Clock, CommitResult } from '../ports.ts'
import type { Ledger, Scheduler } from '../stages.ts'
import type { InFlightCounter } from './in-flight-counter.ts'

export interface CompleterOptions {
  readonly ledger: Pick<Ledger, 'commit' | 'release'>
  readonly scheduler: Pick<Scheduler, 'place' | 'placeFirst' | 'recover'>
  readonly clock: Clock
  /** Releases what a notification holds when it ends without having been delivered. */
  readonly releaseHolds: (held: Notification, ended: Notification['status']) => Promise<void>
  readonly inFlight: InFlightCounter
  readonly onError: (what: string, error: unknown) => void
}

export interface SettledListener {
  /** Called when the move is on record, or is obsolete: then it is not written. */
  settled(isWritten: boolean): void
}

export interface Completer {
  /** Commits the move with the others of the same tick. */
  add(move: Move, listener?: SettledListener): void
  /** Does the same as `add`; resolves when a listener would be called, with its answer. */
  write(move: Move): Promise<boolean>
}

/** Retry delay after the store refused a commit, ms. */
export const storeRetryMs = 200
/** Moves in one commit, at most: few enough that writing them again without an obsolete one is cheap. */
const groupMax = 256
const resolved = Promise.resolve()

/** A result that is not on record yet. */
interface PendingResult {
  readonly move: Move
  readonly listener: SettledListener | undefined
}

export function createCompleter(options: CompleterOptions): Completer {
  const { ledger, scheduler, clock, inFlight, onError } = options
  let gathered: PendingResult[] = []

  function add(move: Move, listener?: SettledListener): void {
    inFlight.begin()
    // Answers that are here already come before this flush: promise callbacks keep their order.
    if (gathered.length === 0) void resolved.then(flush)
    gathered.push({ move, listener })
    if (gathered.length === groupMax) flush()
  }

  function flush(): void {
    if (gathered.length === 0) return
    const group = gathered
    gathered = []
    void write(group)
  }

  /** Commits a batch and never rejects. A move that cannot be written at all is reported, and its lease is freed. */
  async function write(group: readonly PendingResult[]): Promise<void> {
    let left = group
    while (left.length > 0) {
      try {
        left = await commit(left)
      } catch (error) {
        const isBusy = (error as SluiceError).code === 'STORE_UNAVAILABLE'
        onError('settle', error)
        if (isBusy) await new Promise<void>((resolve) => clock.at(clock.now() + storeRetryMs, resolve))
        else if (left.length === 1) return end(left[0]!, false)
        else return void (await Promise.all(left.map((one) => write([one]))))
      }
    }
  }

  /** Commits the batch; resolves to the moves that are still to be written. */
  async function commit(group: readonly PendingResult[]): Promise<readonly PendingResult[]> {
    const committed = await ledger.commit({ moves: group.map(({ move }) => move) })
    if (committed.applied) {
      for (const result of group) follow(result)
      return []
    }
    const isStale = staleIn(group, committed)
    const left: PendingResult[] = []
    for (const result of group) {
      if (!isStale(result)) {
        left.push(result)
        continue
      }
      // The record was changed by another path meanwhile; the record is right.
      ledger.release(result.move.before)
      void scheduler.recover(result.move.before)
      end(result, false)
    }
    return left
  }

  /** Schedules or releases a notification after its result is on record. */
  function follow(result: PendingResult): void {
    const { before, after } = result.move
    if (after.status === 'delivered') {
      // A delivered notification waits for nothing and releases nothing.
    } else if (after.status === 'queued') {
      // It has been through the queue before, so it returns to the front.
      scheduler.placeFirst(after)
    } else {
      scheduler.place([after])
      options
        .releaseHolds(before, after.status)
        .catch((error) => onError('give back', error))
        .finally(() => end(result, true))
      return
    }
    end(result, true)
  }

  function end({ listener }: PendingResult, isWritten: boolean): void {
    listener?.settled(isWritten)
    inFlight.end()
  }

  return {
    add,
    write: (move) => new Promise((resolve) => add(move, { settled: resolve })),
  }
}

/** Selects the moves that the store named as conflicts; all of them where it named none. */
function staleIn(
  group: readonly PendingResult[],
  { conflicts }: Extract<CommitResult, { applied: false }>,
): (result: PendingResult) => boolean {
  const named = new Set(conflicts.flatMap(({ kind, key }) => (kind === 'notification' ? [key] : [])))
  const isNamed = ({ move }: PendingResult): boolean => named.has(move.before.id)
  return group.some(isNamed) ? isNamed : () => true
}
