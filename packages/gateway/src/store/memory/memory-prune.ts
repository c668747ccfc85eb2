/** Retention of the in-memory store: removes what is final and old. */
import type { Notification } from '../../model.ts'
import type { Pruned, Store, StoredAnswer, Tally } from '../../ports.ts'
import type { MemoryCounts } from './memory-counts.ts'
import type { MemoryFeedback } from './memory-feedback.ts'
import type { MemoryJobs } from './memory-jobs.ts'
import { ended } from './memory-rows.ts'

export interface PrunedParts {
  readonly tenants: ReadonlyMap<string, Map<string, Notification>>
  readonly answers: Map<string, StoredAnswer>
  readonly jobs: MemoryJobs
  readonly counts: MemoryCounts
  readonly feedback: Pick<MemoryFeedback, 'forget'>
}

export function prune(
  { tenants, answers, jobs, counts, feedback }: PrunedParts,
  before: Parameters<Store['prune']>[0],
): Pruned {
  const tallies: Tally[] = []
  let pruned = 0
  for (const [key, answer] of answers)
    if (answer.createdAt < before.answers && answers.delete(key)) pruned += 1
  for (const rows of tenants.values()) {
    for (const row of rows.values()) {
      // Rows are in the order of acceptance: none after this one can have ended earlier.
      if (row.createdAt >= before.notifications) break
      if (!ended(row) || (row.timeline.at(-1)?.at ?? row.createdAt) >= before.notifications) continue
      rows.delete(row.id)
      if (row.job !== undefined) jobs.leave(row.job, row.id)
      counts.add(row, -1)
      feedback.forget(row.tenant, row.id)
      tallies.push({ tenant: row.tenant, status: row.status, throttled: false, count: 1, bytes: 0 })
    }
  }
  const oldest: number[] = []
  for (const rows of tenants.values()) {
    const [first] = rows.values()
    if (first !== undefined) oldest.push(first.createdAt)
  }
  return {
    rows: pruned + tallies.length + jobs.prune(before.notifications),
    tallies,
    ...(oldest.length === 0 ? {} : { oldestAt: Math.min(...oldest) }),
  }
}
