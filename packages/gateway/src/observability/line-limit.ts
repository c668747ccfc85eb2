/**
 * Bounds how often lines of one kind are written: a flood of refusals must not become a flood of lines. Lines beyond
 * the bound are counted, and the next line of their kind, at the latest one second later, says how many they were.
 */

export interface LineLimit {
  /**
   * Writes a line, or counts it as suppressed.
   * @param write writes it; `suppressedLines` of the same kind were not written since the last one, 0 for none
   */
  take(kind: string, write: (suppressedLines: number) => void): void
  /** Writes the counts that are left. */
  close(): void
}

interface Kind {
  count: number
  suppressed: number
  write: (suppressedLines: number) => void
}

const windowMs = 1_000
/** Kinds within one second at most; lines of further ones share one. */
const kindsMax = 1_000

export function createLineLimit(perSecond: number): LineLimit {
  let kinds = new Map<string, Kind>()
  let timer: NodeJS.Timeout | undefined

  /** Ends a second: each kind may write again, and those that could not say how many were left out. */
  function turn(): void {
    timer = undefined
    const ended = kinds
    kinds = new Map()
    for (const [name, { suppressed, write }] of ended) {
      if (suppressed === 0) continue
      kinds.set(name, { count: 1, suppressed: 0, write })
      write(suppressed)
    }
    if (kinds.size > 0) arm()
  }

  function arm(): void {
    timer ??= setTimeout(turn, windowMs).unref()
  }

  return {
    take(name, write) {
      const of = kinds.has(name) || kinds.size < kindsMax ? name : ''
      const kind = kinds.get(of)
      if (kind === undefined) {
        kinds.set(of, { count: 1, suppressed: 0, write })
        arm()
        write(0)
        return
      }
      if (kind.count < perSecond) {
        kind.count += 1
        write(0)
        return
      }
      kind.suppressed += 1
      kind.write = write
    },
    close() {
      clearTimeout(timer)
      turn()
      clearTimeout(timer)
    },
  }
}
