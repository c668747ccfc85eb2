/**
 * Group commit: changes that arrive before the flush share one transaction and one fsync. The first change of a group
 * schedules the flush after all events that have already arrived; under load that is where the group grows. A large
 * change goes alone (write-queue.ts).
 */
import type { Change, Clock, CommitResult } from '../../../ports.ts'
import type { ChangeLog, ChangeWrites, WrittenAhead } from '../codec/change-log.ts'
import { changeLogOf, writesOf } from '../codec/change-log.ts'
import { largeBytes } from '../write-queue.ts'
import type { Result } from './engine.ts'

interface Waiting {
  readonly change: ChangeWrites
  readonly resolve: (result: CommitResult) => void
  readonly reject: (error: unknown) => void
}

export interface GroupOptions {
  readonly clock: Pick<Clock, 'soon'>
  /** True if changes of state are put into the outbox. @defaultValue false */
  readonly isLogged?: boolean
  /** Writes a log and returns one result for each change. */
  readonly write: (changeLog: ChangeLog) => Promise<readonly Result[]>
  /** Converts the engine's fault to an error. */
  readonly raise: (fault: Extract<Result, { fault: unknown }>['fault']) => Error
}

export interface Group {
  /** @throws TypeError for a path that the transition table does not allow */
  commit(change: Change, ahead?: WrittenAhead): Promise<CommitResult>
  /** Sends the waiting changes now. */
  flush(): void
}

const applied: CommitResult = { applied: true }

export function createGroup({ clock, isLogged = false, write, raise }: GroupOptions): Group {
  let waiting: Waiting[] = []

  function flush(): void {
    const group = waiting
    if (group.length === 0) return
    waiting = []
    send(group)
  }

  function send(group: readonly Waiting[]): void {
    write(changeLogOf(group.map(({ change }) => change))).then(
      (results) => {
        for (const [index, waiter] of group.entries()) resolveWaiter(waiter, results[index]!)
      },
      (error: unknown) => {
        for (const { reject } of group) reject(error)
      },
    )
  }

  function resolveWaiter({ resolve, reject }: Waiting, result: Result): void {
    if (result === null) resolve(applied)
    else if ('fault' in result) reject(raise(result.fault))
    else resolve({ applied: false, conflicts: result })
  }

  return {
    flush,
    commit(change, ahead) {
      const writes = writesOf(change, ahead, isLogged)
      return new Promise((resolve, reject) => {
        const waiter = { change: writes, resolve, reject }
        // The other changes of this turn must not wait for a large one.
        if (writes.bytes > largeBytes) return send([waiter])
        if (waiting.length === 0) clock.soon(flush)
        waiting.push(waiter)
      })
    },
  }
}
