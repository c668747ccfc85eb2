/**
 * Admits the drafts of one request: one evaluation, one check for room in the queue, one durable commit. A concurrent
 * change leads to a retry; a failure gives back everything that the verdicts hold.
 */
import { type Conflicted, conflicted, retryOnConflict } from '../conflict.ts'
import { SluiceError } from '../errors.ts'
import { type Draft, delayingLimit, isFinal, type Notification, type SharedContent } from '../model.ts'
import type { Policy } from '../policy/policy.ts'
import { recipientSubject } from '../policy/subject.ts'
import type { Change, Clock, DigestWrite, LimitState, Random, Store } from '../ports.ts'
import type { Admit, Admitted, Caller, Contents, Ledger, Room, Scheduler } from '../stages.ts'
import { accepted, type Candidate } from './candidate.ts'
import type { OpenDigests } from './digests/open-digests.ts'
import type { Evaluator } from './evaluate.ts'
import { fingerprint } from './fingerprint.ts'
import type { MovingUp } from './moving-up.ts'
import type { RecipientCache } from './recipient-cache.ts'
import { createContentSplitter, type Unstored } from './stored-content.ts'
import type { TenantThrottle } from './tenant-throttle/tenant-throttle.ts'

export interface AcceptanceOptions {
  readonly store: Pick<Store, 'answer'>
  readonly ledger: Ledger
  readonly recipients: RecipientCache
  readonly policy: Policy
  readonly scheduler: Scheduler
  readonly digests: OpenDigests
  readonly evaluator: Evaluator
  readonly throttle: TenantThrottle
  readonly state: Pick<LimitState, 'pause'>
  readonly movingUp: Pick<MovingUp, 'freed' | 'enlist'>
  readonly contents: Pick<Contents, 'keep'>
  readonly clock: Clock
  readonly random: Random
  readonly onError: (what: string, error: unknown) => void
}

export interface Acceptance {
  /** Turns drafts into candidates: the notifications as they would be stored, their recipients, and no verdict yet. */
  candidatesOf(caller: Caller, drafts: readonly Draft[]): Promise<readonly Candidate[]>
  admit(request: Admit): Promise<readonly Admitted[]>
  /** Hands committed notifications and their digests to the scheduler and the waiting lists. */
  follow(candidates: readonly Candidate[], notifications: readonly Notification[]): void
  /** Gives back everything that the verdicts hold, because they were not committed. */
  giveUp(candidates: readonly Candidate[]): Promise<void>
}

/** Content larger than this, bytes, is read in an event loop turn of its own. */
const sliceBytes = 2 ** 18

export function createAcceptance(options: AcceptanceOptions): Acceptance {
  const { store, ledger, recipients, policy, scheduler, digests, evaluator, throttle, clock, random } =
    options
  const { state, movingUp, onError } = options

  function notificationOf({ tenant, module }: Caller, draft: Draft, now: number): Unstored {
    return {
      ...draft,
      id: random.id(now),
      tenant,
      module,
      createdAt: now,
      fingerprint: fingerprint(tenant, draft),
      status: 'accepted',
      dueAt: now,
      decision: { outcome: 'send', policyVersion: policy.version, rules: [] },
      attempts: 0,
      timeline: [],
    }
  }

  /** Yields to the event loop. */
  const pause = (): Promise<void> => new Promise((resolve) => clock.soon(resolve))

  async function candidatesOf(caller: Caller, drafts: readonly Draft[]): Promise<readonly Candidate[]> {
    const now = clock.now()
    const known = drafts.map(({ to }) => recipients.cached(caller.tenant, to.id))
    const recipientRecords = known.includes(undefined)
      ? await Promise.all(drafts.map(({ to }) => recipients.find(caller.tenant, to.id)))
      : known
    const store = createContentSplitter(() => random.id(now))
    const candidates: Candidate[] = []
    let read = 0
    for (const [index, draft] of drafts.entries()) {
      // The first draft of a batch reads the content that all of them share; the event loop is free before and after.
      const isLarge = index === 0 && (draft.shared?.bytes ?? 0) > sliceBytes
      if (isLarge) await pause()
      const { notification, content } = store(notificationOf(caller, draft, now))
      read += notification.bytes ?? 0
      candidates.push({
        notification,
        recipient: recipientRecords[index]!,
        verdict: undefined,
        ...(content && { content }),
      })
      if (!isLarge && read < sliceBytes) continue
      read = 0
      await pause()
    }
    return candidates
  }

  async function admitOnce(request: Admit): Promise<readonly Admitted[] | Conflicted> {
    const candidates = await candidatesOf(request.caller, request.drafts)
    const passed = await throttle.pass(candidates)
    let result: readonly Admitted[] | Conflicted = conflicted
    try {
      const behind = candidates.filter((each) => each.verdict !== undefined)
      await evaluator.decide(candidates)
      if (behind.length > 0)
        await passed.takeBack(behind.filter((each) => each.verdict?.status === 'suppressed'))
      result = await accept(request, candidates)
    } finally {
      if (result === conflicted) {
        await giveUp(candidates)
        await passed.takeBack()
      }
    }
    return result
  }

  async function admit(request: Admit): Promise<readonly Admitted[]> {
    const result = await retryOnConflict(() => admitOnce(request))
    if (result !== conflicted) return result
    throw new SluiceError('STORE_UNAVAILABLE', 'The notification met too many changes at once. Try again.', {
      retryAfterMs: 1_000,
    })
  }

  /** Commits the verdicts, or reports a concurrent change. */
  async function accept(
    request: Admit,
    candidates: readonly Candidate[],
  ): Promise<readonly Admitted[] | Conflicted> {
    const { caller, job } = request
    const notifications = candidates.map((each) => accepted(each.notification, each.verdict!))
    const results = notifications.map(admitted)
    const answer = request.answer
    const held = job === undefined ? {} : { queue: 0, critical: 0, bytes: 0 }
    const contents = [...new Set(candidates.flatMap(({ content }) => content ?? []))]
    const room = roomFor(notifications, contents)
    const giveRoomBack = ledger.takeRoom(caller.tenant, { ...room, ...held })
    try {
      const change: Change = {
        ...(contents.length === 0 ? {} : { contents }),
        accept: notifications,
        ...digestWrites(candidates),
        ...(answer === undefined ? {} : { answer: answer(results) }),
        ...(job === undefined ? {} : { jobs: [{ kind: 'move' as const, ...job }] }),
      }
      const result = await ledger.commit(change)
      if (!result.applied) {
        await refuseRepeated(request, change, result.conflicts)
        return conflicted
      }
    } finally {
      giveRoomBack()
    }
    for (const content of contents) options.contents.keep(content)
    follow(candidates, notifications)
    return results
  }

  /** Throws where a retry would not help: the job has moved on, or the request was answered meanwhile. */
  async function refuseRepeated({ job }: Admit, { answer }: Change, conflicts: readonly string[]) {
    if (job !== undefined && conflicts.includes(job.before.id))
      throw new SluiceError('STORE_UNAVAILABLE', `Job ${job.before.id} has moved on meanwhile.`)
    if (answer !== undefined && (await store.answer(answer)) !== undefined)
      throw new SluiceError(
        'IDEMPOTENCY_IN_PROGRESS',
        'A request with this Idempotency-Key was just accepted.',
      )
  }

  function follow(candidates: readonly Candidate[], notifications: readonly Notification[]): void {
    for (const { verdict } of candidates) {
      if (verdict?.digest === undefined) continue
      const { digest, opens } = verdict.digest
      if (opens) digests.opened(digest)
      scheduler.noteDigest(digest.closesAt)
    }
    scheduler.place(notifications)
    for (const [index, { notification, recipient, verdict }] of candidates.entries()) {
      if (verdict?.waitlisted === true)
        movingUp
          .enlist(notifications[index]!, recipient)
          .catch((error) => onError('put one on the waiting list', error))
      if (verdict?.booked !== true || verdict.status !== 'scheduled') continue
      const { tenant, to } = notification
      if (recipients.cached(tenant, to.id) === recipient) continue
      hurry(tenant, to.id).catch((error) => onError('let those who wait move up', error))
    }
  }

  /** The recipient's preferences changed during the evaluation: the notification may be admitted earlier. */
  async function hurry(tenant: string, recipient: string): Promise<void> {
    const subject = recipientSubject(tenant, recipient)
    await state.pause([subject])
    await movingUp.freed([subject])
  }

  async function giveUp(candidates: readonly Candidate[]): Promise<void> {
    await evaluator.takeBack(candidates)
    for (const { verdict } of candidates)
      if (verdict?.digest !== undefined) digests.forget(verdict.digest.digest)
  }

  return { candidatesOf, admit, follow, giveUp }
}

function admitted(notification: Notification): Admitted {
  const queuedBehind = delayingLimit(notification)
  return queuedBehind === undefined ? { ok: true, notification } : { ok: true, notification, queuedBehind }
}

/** Builds one write for each digest that the candidates join, with the earliest closing time among them. */
export function digestWrites(candidates: readonly Candidate[]): {
  readonly digests?: readonly DigestWrite[]
} {
  const writes = new Map<string, DigestWrite>()
  for (const { verdict } of candidates) {
    if (verdict?.digest === undefined) continue
    const { digest, opens } = verdict.digest
    const other = writes.get(digest.id)
    if (other !== undefined && other.digest.closesAt <= digest.closesAt) continue
    writes.set(digest.id, { kind: opens || other?.kind === 'open' ? 'open' : 'join', digest })
  }
  return writes.size === 0 ? {} : { digests: [...writes.values()] }
}

function roomFor(notifications: readonly Notification[], contents: readonly SharedContent[]): Room {
  const room = { queue: 0, critical: 0, waiting: 0, bytes: 0 }
  for (const { bytes } of contents) room.bytes += bytes
  for (const notification of notifications) {
    const { status, priority, bytes = 0 } = notification
    if (!isFinal(status)) room.bytes += bytes
    if (status === 'digesting') room.waiting += 1
    else if (status === 'queued') room[priority === 'critical' ? 'critical' : 'queue'] += 1
    else if (status === 'scheduled')
      room[delayingLimit(notification) === undefined ? 'waiting' : 'queue'] += 1
  }
  return room
}
