/**
 * Group commit: what arrives before the flush shares one transaction and one fsync. The first change of a group asks
 * the clock for a moment after everything that has already arrived; under load that is where the group grows. A large
 * change goes alone (write-queue.ts).
 */
import type { Change, Clock, CommitResult } from '../../../ports.ts'
import type { ChangeLog } from '../codec/change-log.ts'
import { Recorder } from '../codec/change-log.ts'
import { largeBytes } from '../write-queue.ts'
import type { Result } from './engine.ts'

interface Waiting {
  readonly resolve: (result: CommitResult) => void
  readonly reject: (error: unknown) => void
}

export interface GroupOptions {
  readonly clock: Pick<Clock, 'soon'>
  /** One result a change. */
  readonly write: (changeLog: ChangeLog) => Promise<readonly Result[]>
  /** Makes an error of what the engine raised. */
  readonly raise: (fault: Extract<Result, { fault: unknown }>['fault']) => Error
}

export interface Group {
  /** @throws TypeError for a path that no notification may go */
  commit(change: Change): Promise<CommitResult>
  /** Sends what is waiting, now. */
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
    commit(change) {
      const bytes = recorder.put(change)
      return new Promise((resolve, reject) => {
        // The others of this turn must not wait for it.
        if (bytes > largeBytes) return send(recorder.cutLast(), [{ resolve, reject }])
        if (waiting.length === 0) clock.soon(flush)
        waiting.push({ resolve, reject })
      })
    },
  }
}
