/**
 * Group commit: what arrives before the flush shares one transaction and one fsync. The first change of a group asks
 * the clock for a moment after everything that has already arrived; under load that is where the group grows.
 */
import type { Change, Clock, CommitResult } from '../../../ports.ts'

interface Pending {
  readonly change: Change
  readonly resolve: (result: CommitResult) => void
  readonly reject: (error: unknown) => void
}

export interface GroupOptions {
  readonly clock: Pick<Clock, 'soon'>
  /** Writes all or nothing; throws otherwise. */
  readonly write: (changes: readonly Change[]) => readonly CommitResult[]
  /** Whether the error is the disk's, and so the trouble of the whole group. */
  readonly faultOf: (error: unknown) => Error | undefined
}

export interface Group {
  commit(change: Change): Promise<CommitResult>
  /** Writes what is waiting, now. */
  flush(): void
}

export function createGroup({ clock, write, faultOf }: GroupOptions): Group {
  let waiting: Pending[] = []

  function flush(): void {
    const group = waiting
    waiting = []
    if (group.length > 0) settle(group)
  }

  function settle(group: readonly Pending[]): void {
    let results: readonly CommitResult[]
    try {
      results = write(group.map(({ change }) => change))
    } catch (error) {
      const fault = faultOf(error)
      if (fault !== undefined || group.length === 1) {
        for (const { reject } of group) reject(fault ?? error)
        return
      }
      // One of them cannot be written at all (a value of a wrong type): the others must not suffer for it.
      for (const pending of group) settle([pending])
      return
    }
    for (const [index, { resolve }] of group.entries()) resolve(results[index]!)
  }

  return {
    flush,
    commit(change) {
      return new Promise((resolve, reject) => {
        if (waiting.length === 0) clock.soon(flush)
        waiting.push({ change, resolve, reject })
      })
    },
  }
}
