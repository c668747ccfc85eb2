/** Lines for commits that fail or take long, at most one of each a second. */
import { createLineLimit } from './line-limit.ts'
import type { Log } from './log-events.ts'
import type { StoreOutage } from './store-outage.ts'

const slowMs = 1_000

export interface CommitLog {
  note(tookMs: number, writes: number, error: unknown): void
  close(): void
}

export function createCommitLog(log: Log, outage: Pick<StoreOutage, 'covers'>): CommitLog {
  const limit = createLineLimit(1)
  const more = (suppressedLines: number): object => (suppressedLines === 0 ? {} : { suppressedLines })

  return {
    note(tookMs, writes, error) {
      if (error === undefined ? tookMs < slowMs : outage.covers(error)) return
      const fields = { tookMs: Math.round(tookMs), writes }
      if (error !== undefined)
        limit.take('failed', (left) =>
          log.error({ event: 'store.failed', ...fields, ...more(left), err: error }),
        )
      else limit.take('slow', (left) => log.warn({ event: 'store.slow', ...fields, ...more(left) }))
    },
    close: () => limit.close(),
  }
}
