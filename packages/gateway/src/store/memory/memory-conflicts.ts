/** The conflicts of a change in the in-memory store: what it was decided by and has changed since. */
import type { Digest, Notification } from '../../model.ts'
import type { Change, Conflict, StoredAnswer } from '../../ports.ts'
import type { MemoryCounts } from './memory-counts.ts'
import type { MemoryDigests } from './memory-digests.ts'
import type { MemoryErasures } from './memory-erasures.ts'
import type { MemoryItems } from './memory-items.ts'
import type { MemoryJobs } from './memory-jobs.ts'
import { answerKey, groupKey } from './memory-keys.ts'
import { sameVersion } from './memory-rows.ts'

export interface ConflictParts {
  find(of: Pick<Notification, 'tenant' | 'id'>): Notification | undefined
  readonly open: MemoryDigests
  readonly items: MemoryItems
  readonly jobs: MemoryJobs
  readonly counts: MemoryCounts
  readonly answers: ReadonlyMap<string, StoredAnswer>
  readonly erasures: Pick<MemoryErasures, 'pendingNameOf'>
}

export function conflictsOf(change: Change, parts: ConflictParts): readonly Conflict[] {
  const { accept = [], moves = [], digests = [], answer, jobs = [], contents = [] } = change
  const conflicts: Conflict[] = parts.jobs.conflictsOf(jobs)
  const note = (kind: Conflict['kind'], key: string): void => void conflicts.push({ kind, key })
  for (const notification of accept)
    if (parts.find(notification) !== undefined) note('notification', notification.id)
  for (const { before } of moves) {
    const now = parts.find(before)
    if (now === undefined || !sameVersion(now, before)) note('notification', before.id)
  }
  // The open digests as they would be after each of the preceding writes.
  const open = new Map<string, string | undefined>()
  for (const { kind, digest } of digests) {
    const key = groupKey(digest)
    const id = open.has(key) ? open.get(key) : parts.open.of(digest)?.id
    // A closed digest may have become a notification, and is not opened again.
    const opens = kind === 'open' && id === undefined && parts.find(digest) === undefined
    if (!opens && id !== digest.id) note('digest', digest.id)
    open.set(key, kind === 'close' ? undefined : digest.id)
  }
  for (const { id } of contents) if (parts.counts.hasContent(id)) note('content', id)
  if (answer !== undefined && parts.answers.has(answerKey(answer))) note('answer', answer.key)
  for (const { tenant, recipient, notificationId } of change.reportedOf ?? []) {
    const isErasing = parts.erasures.pendingNameOf(tenant, recipient) !== undefined
    if (isErasing || parts.find({ tenant, id: notificationId })?.to.id !== recipient)
      note('erased', recipient)
  }
  if (conflicts.length > 0) return conflicts
  return digests
    .filter((write) => 'left' in write && write.left !== leftIn(write.digest, change, parts))
    .map(({ digest }) => ({ kind: 'digest', key: digest.id }))
}

/** The number of items that the digest collects once the change is written. */
function leftIn({ id }: Digest, { accept = [], moves = [] }: Change, { items }: ConflictParts): number {
  const isIn = ({ status, digestId }: Notification): boolean => status === 'digesting' && digestId === id
  const joins = accept.filter(isIn).length + moves.filter(({ after }) => isIn(after)).length
  const leaves = moves.filter(({ before }) => isIn(before)).length
  return items.sizeOf(id) + joins - leaves
}
