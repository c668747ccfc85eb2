/**
 * Group commit: changes that arrive before the flush share one transaction and one fsync. The first change of a group
 * schedules the flush after all events that have already arrived; under load that is where the group grows. A large
 * change goes alone (write-queue.ts).
 */
import type { Change, Clock, CommitResult } from '../../../ports.ts'
import type { ChangeLog, WrittenAhead } from '../codec/change-log.ts'
import { Recorder } from '../codec/change-log.ts'
import { largeBytes } from '../write-queue.ts'
import type { Result } from './engine.ts'

interface Waiting {
  readonly resolve: (result: CommitResult) => void
  readonly reject: (error: unknown) => void
}

export interface GroupOptions {
  readonly clock: Pick<Clock, 'soon'>
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

export function createGroup({ clock, write, raise }: GroupOptions): Group {
  const recorder = new Recorder()
  let waiting: Waiting[] = []

  function flush(): void {
    const group = waiting
    if (group.length === 0) return
    waiting = []
    send(recorder.cut(), group)
  }

  function send(changeLog: ChangeLog, group: readonly Waiting[]): void {
    write(changeLog).then(
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
      const bytes = recorder.put(change, ahead)
      return new Promise((resolve, reject) => {
        // The other changes of this turn must not wait for a large one.
        if (bytes > largeBytes) return send(recorder.cutLast(), [{ resolve, reject }])
        if (waiting.length === 0) clock.soon(flush)
        waiting.push({ resolve, reject })
      })
    },
  }
}
