/**
 * Brings what has happened to notifications on record, for good: what a provider has taken must reach the record,
 * however long the store takes to recover. What comes to an end in one turn of the event loop is one change of the
 * ledger: one text for the store's thread, and one promise, for up to hundreds. A change is written as a whole or not at
 * all, so where one of them meets a record that has moved on, the others are written without it.
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
  /** What ends without having been delivered gives back what it holds. */
  readonly releaseHolds: (held: Notification, ended: Notification['status']) => Promise<void>
  readonly inFlight: InFlightCounter
  readonly onError: (what: string, error: unknown) => void
}

export interface Completer {
  /** Writes the move with those of the same turn; `done` is called when it is on record, or is no longer right. */
  add(move: Move, done?: () => void): void
  /** The same for who awaits it. */
  write(move: Move): Promise<void>
}

/** Until a settlement that the store refused is offered again. */
export const settleAgainMs = 200
/** Moves in one change: few enough that writing them without one that is no longer right costs little. */
const groupMax = 256
const settled = Promise.resolve()

interface Settling {
  readonly move: Move
  readonly done: (() => void) | undefined
}

export function createCompleter(options: CompleterOptions): Completer {
  const { ledger, scheduler, clock, inFlight, onError } = options
  let gathered: Settling[] = []

  function add(move: Move, done?: () => void): void {
    inFlight.begin()
    // Those whose answers are here already come before this: what promises call back keeps its order.
    if (gathered.length === 0) void settled.then(flush)
    gathered.push({ move, done })
    if (gathered.length === groupMax) flush()
  }

  function flush(): void {
    if (gathered.length === 0) return
    const group = gathered
    gathered = []
    void write(group)
  }

  /** Never rejects: what cannot be written at all is told, and its lease must not be lost with it. */
  async function write(group: readonly Settling[]): Promise<void> {
    let left = group
    while (left.length > 0) {
      try {
        left = await commit(left)
      } catch (error) {
        const isBusy = (error as SluiceError).code === 'STORE_UNAVAILABLE'
        onError('settle', error)
        if (isBusy) await new Promise<void>((resolve) => clock.at(clock.now() + settleAgainMs, resolve))
        else if (left.length === 1) return end(left[0]!)
        else return void (await Promise.all(left.map((one) => write([one]))))
      }
    }
  }

  /** Those that are still to be written. */
  async function commit(group: readonly Settling[]): Promise<readonly Settling[]> {
    const result = await ledger.commit({ moves: group.map(({ move }) => move) })
    if (result.applied) {
      for (const settling of group) follow(settling)
      return []
    }
    const isStale = staleIn(group, result)
    const left: Settling[] = []
    for (const settling of group) {
      if (!isStale(settling)) {
        left.push(settling)
        continue
      }
      // The record went another way meanwhile; what it says now is right.
      ledger.release(settling.move.before)
      void scheduler.recover(settling.move.before)
      end(settling)
    }
    return left
  }

  /** What is on record now goes its way. */
  function follow(settling: Settling): void {
    const { before, after } = settling.move
    if (after.status === 'delivered') {
      // It waits for nothing and gives nothing back.
    } else if (after.status === 'queued') {
      // It has left the queue before, and did not choose to stand behind others.
      scheduler.placeFirst(after)
    } else {
      scheduler.place([after])
      options
        .releaseHolds(before, after.status)
        .catch((error) => onError('give back', error))
        .finally(() => end(settling))
      return
    }
    end(settling)
  }

  function end({ done }: Settling): void {
    done?.()
    inFlight.end()
  }

  return {
    add,
    write: (move) => new Promise<void>((resolve) => add(move, resolve)),
  }
}

/** Which of them the store named; all of them where it named none. */
function staleIn(
  group: readonly Settling[],
  { conflicts }: Extract<CommitResult, { applied: false }>,
): (settling: Settling) => boolean {
  const named = new Set(conflicts)
  const isNamed = ({ move }: Settling): boolean => named.has(move.before.id)
  return group.some(isNamed) ? isNamed : () => true
}
