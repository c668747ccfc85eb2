/**
 * The parts of a change that follow from its candidates besides their notifications: contents, the digests that they join,
 * the versions of the recipients for whom they were decided, and the room that they take. After a conflict all that they were decided by is read again.
 */
import { isAmong } from '../conflict.ts'
import { delayingLimit, isFinal, type Notification, type SharedContent } from '../model.ts'
import type { Change, Conflict, DigestWrite } from '../ports.ts'
import type { Room } from '../stages.ts'
import type { Candidate } from './candidate.ts'
import type { OpenDigests } from './digests/open-digests.ts'
import type { RecipientCache } from './recipient-cache.ts'

/** Collects the contents to be written, each once. At most as many as a batch has drafts, and nearly always one. */
export function contentsOf(candidates: readonly Candidate[]): readonly SharedContent[] {
  const contents: SharedContent[] = []
  for (const { content } of candidates)
    if (content !== undefined && !contents.includes(content)) contents.push(content)
  return contents
}

/** Builds one write for each digest that the candidates join, with the earliest closing time among them. */
export function digestWrites(candidates: readonly Candidate[]): {
  readonly digests?: readonly DigestWrite[]
} {
  let writes: Map<string, DigestWrite> | undefined
  for (const { verdict } of candidates) {
    if (verdict?.digest === undefined) continue
    const { digest, opens } = verdict.digest
    writes ??= new Map()
    const other = writes.get(digest.id)
    if (other !== undefined && other.digest.closesAt <= digest.closesAt) continue
    writes.set(digest.id, { kind: opens || other?.kind === 'open' ? 'open' : 'join', digest })
  }
  return writes === undefined ? {} : { digests: [...writes.values()] }
}

/** Names the version of each recipient for whom a candidate was decided, for a store that other processes write to. */
export function decidedFor(candidates: readonly Candidate[]): NonNullable<Change['decidedFor']> {
  const versions = new Map(
    candidates.map(({ notification: { tenant, to }, recipient }) => [
      to.id,
      { tenant, recipient: to.id, version: recipient?.version ?? 0 },
    ]),
  )
  return [...versions.values()]
}

/** Forgets joined digests and recipients that the store named as conflicts: another commit has changed them. */
export function forgetConflicting(
  {
    digests,
    recipients,
  }: { readonly digests: Pick<OpenDigests, 'forget'>; readonly recipients: Pick<RecipientCache, 'forget'> },
  candidates: readonly Candidate[],
  conflicts: readonly Conflict[],
): void {
  for (const { notification, verdict } of candidates) {
    const { tenant, to } = notification
    if (verdict?.digest !== undefined && isAmong(conflicts, 'digest', verdict.digest.digest.id))
      digests.forget(verdict.digest.digest)
    if (isAmong(conflicts, 'recipient', to.id)) recipients.forget(tenant, to.id)
  }
}

/** Counts the room that notifications need. The drafts of a job have held theirs in the queue since it was opened. */
export function roomFor(
  notifications: readonly Notification[],
  contents: readonly SharedContent[],
  ofJob: boolean,
): Room {
  const room = { queue: 0, critical: 0, waiting: 0, bytes: contents.reduce((n, { bytes }) => n + bytes, 0) }
  for (const notification of notifications) {
    const { status, priority, bytes = 0 } = notification
    if (!isFinal(status)) room.bytes += bytes
    if (status === 'digesting') room.waiting += 1
    else if (status === 'queued') room[priority === 'critical' ? 'critical' : 'queue'] += 1
    else if (status === 'scheduled')
      room[delayingLimit(notification) === undefined ? 'waiting' : 'queue'] += 1
  }
  return ofJob ? { queue: 0, critical: 0, waiting: room.waiting, bytes: 0 } : room
}
