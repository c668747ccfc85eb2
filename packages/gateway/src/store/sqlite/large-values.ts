/**
 * Large values of a change, written ahead in parts (tables/parts.ts): each part is on disk before the next one is sent,
 * so that the writes of others come in between. Only then the change itself is committed, and it alone decides whether
 * its parts are ever read. Parts of a change that was refused are dropped.
 */
import type { Change, CommitResult } from '../../ports.ts'
import type { ChangeLog, WrittenAhead } from './codec/change-log.ts'
import { changeLogOf, partWrites, piecesOfContent } from './codec/change-log.ts'
import { apart } from './job-work.ts'
import { type InParts, partBytes } from './tables/parts.ts'
import type { Fault, Result } from './worker/engine.ts'

export interface LargeValuesOptions {
  /** The first key that no part on record has. */
  readonly firstKey: number
  readonly write: (changeLog: ChangeLog) => Promise<readonly Result[]>
  /** Converts the engine's fault to an error. */
  readonly raise: (fault: Fault) => Error
  /** Commits the change, whose large values are on disk. */
  readonly commit: (change: Change, ahead: WrittenAhead) => Promise<CommitResult>
  /** Drops the parts of values to which nothing refers. */
  readonly drop: (keys: readonly number[]) => unknown
}

export interface LargeValues {
  areIn(change: Change): boolean
  /** Writes the large values of the change, then commits it. */
  commit(change: Change): Promise<CommitResult>
  /** Resolves when all commits under way have ended. */
  settled(): Promise<void>
}

export function createLargeValues(options: LargeValuesOptions): LargeValues {
  const { write, raise, drop } = options
  let nextKey = options.firstKey
  /** At most as many as there are requests. */
  const underWay = new Set<Promise<CommitResult>>()

  async function writeParts(key: number, pieces: Pieces): Promise<InParts> {
    let count = 0
    for (const body of partsOf(pieces)) {
      const [result] = await write(changeLogOf([partWrites({ key, number: count }, body)]))
      if (result !== null) throw raise((result as { fault: Fault }).fault)
      count += 1
    }
    return { key, count }
  }

  async function commit(change: Change): Promise<CommitResult> {
    const ahead = new Map<object, InParts>()
    const first = nextKey
    const values = largeValuesOf(change)
    // Before the first part is sent: keys are of one commit alone.
    nextKey += values.length
    let applied = false
    try {
      for (const [index, { of, pieces }] of values.entries())
        ahead.set(of, await writeParts(first + index, pieces))
      const result = await options.commit(change, ahead)
      applied = result.applied
      return result
    } finally {
      if (!applied) drop(values.map((_, index) => first + index))
    }
  }

  return {
    areIn: ({ contents, jobs }) => contents?.some(isLargeContent) === true || jobs?.some(isLargeJob) === true,
    async commit(change) {
      const committed = commit(change)
      underWay.add(committed)
      try {
        return await committed
      } finally {
        underWay.delete(committed)
      }
    },
    async settled() {
      await Promise.allSettled([...underWay])
    },
  }
}

type Pieces = readonly (string | Uint8Array)[]

const isLargeContent = ({ bytes }: NonNullable<Change['contents']>[number]): boolean => bytes > partBytes
/** Tells a large job by the size of its request, which is known already. */
const isLargeJob = (write: NonNullable<Change['jobs']>[number]): boolean =>
  write.kind === 'open' && (write.job.bytes ?? 0) > partBytes

function largeValuesOf({ contents = [], jobs = [] }: Change): readonly { of: object; pieces: Pieces }[] {
  return [
    ...contents.filter(isLargeContent).map((of) => ({ of, pieces: piecesOfContent(of) })),
    ...jobs.filter(isLargeJob).flatMap((of) => (of.kind === 'open' ? { of, pieces: apart(of.work) } : [])),
  ]
}

/** Cuts the value into parts; each is valid until the next one is asked for. */
function* partsOf(pieces: Pieces): Generator<Uint8Array> {
  const part = Buffer.allocUnsafe(partBytes)
  let at = 0
  for (const piece of pieces) {
    const bytes = typeof piece === 'string' ? Buffer.from(piece) : piece
    for (let from = 0; from < bytes.length; ) {
      const taken = bytes.subarray(from, from + partBytes - at)
      part.set(taken, at)
      from += taken.length
      at += taken.length
      if (at < partBytes) continue
      yield part
      at = 0
    }
  }
  if (at > 0) yield part.subarray(0, at)
}
