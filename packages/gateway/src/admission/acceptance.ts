/**
 * From drafts to what is on record: decided together, room claimed, one durable commit. What had changed meanwhile makes
 * it decide anew; what goes wrong gives everything back that the verdicts hold.
 */
import { type Conflicted, conflicted, retryOnConflict } from '../conflict.ts'
import type { Admit, Admitted, Agenda, Caller, Contents, Ledger, Room } from '../doors.ts'
import { SluiceError } from '../errors.ts'
import { type Draft, delayingLimit, isFinal, type Notification, type SharedContent } from '../model.ts'
import type { Policy } from '../policy/policy.ts'
import { personSubject } from '../policy/subject.ts'
import type { Change, Clock, DigestWrite, LimitState, Random, Store } from '../ports.ts'
import { accepted, type Case } from './case.ts'
import type { Decider } from './decider.ts'
import { fingerprint } from './fingerprint.ts'
import type { MovingUp } from './moving-up.ts'
import type { OpenDigests } from './open-digests.ts'
import type { PeopleCache } from './people.ts'
import type { PlatformLine } from './platform.ts'
import { createContentSplitter, type Unstored } from './stored-content.ts'

export interface AcceptanceOptions {
  readonly store: Pick<Store, 'answer'>
  readonly ledger: Ledger
  readonly people: PeopleCache
  readonly policy: Policy
  readonly agenda: Agenda
  readonly digests: OpenDigests
  readonly decider: Decider
  readonly platform: PlatformLine
  readonly state: Pick<LimitState, 'pause'>
  readonly movingUp: Pick<MovingUp, 'freed' | 'enlist'>
  readonly contents: Pick<Contents, 'keep'>
  readonly clock: Clock
  readonly random: Random
  readonly onTrouble: (what: string, error: unknown) => void
}

export interface Acceptance {
  /** Drafts as they would be on record, with what is known of their people; the verdicts are still to come. */
  casesOf(caller: Caller, drafts: readonly Draft[]): Promise<readonly Case[]>
  admit(request: Admit): Promise<readonly Admitted[]>
  /** What is on record now goes its way. */
  follow(cases: readonly Case[], notifications: readonly Notification[]): void
  /** Gives back what the verdicts hold: nothing came of them. */
  giveUp(cases: readonly Case[]): Promise<void>
}

/** Content above it is read in a turn of the event loop of its own. */
const sliceBytes = 2 ** 18

export function createAcceptance(options: AcceptanceOptions): Acceptance {
  const { store, ledger, people, policy, agenda, digests, decider, platform, clock, random } = options
  const { state, movingUp, onTrouble } = options

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

  /** Lets others have the event loop. */
  const pause = (): Promise<void> => new Promise((resolve) => clock.soon(resolve))

  async function casesOf(caller: Caller, drafts: readonly Draft[]): Promise<readonly Case[]> {
    const now = clock.now()
    const known = drafts.map(({ to }) => people.cached(caller.tenant, to.id))
    const persons = known.includes(undefined)
      ? await Promise.all(drafts.map(({ to }) => people.find(caller.tenant, to.id)))
      : known
    const store = createContentSplitter(() => random.id(now))
    const cases: Case[] = []
    let read = 0
    for (const [index, draft] of drafts.entries()) {
      // The first of a batch reads what all of it say, and others have the event loop before and after.
      const isLarge = index === 0 && (draft.shared?.bytes ?? 0) > sliceBytes
      if (isLarge) await pause()
      const { notification, content } = store(notificationOf(caller, draft, now))
      read += notification.bytes ?? 0
      cases.push({ notification, person: persons[index]!, verdict: undefined, ...(content && { content }) })
      if (!isLarge && read < sliceBytes) continue
      read = 0
      await pause()
    }
    return cases
  }

  async function admitOnce(request: Admit): Promise<readonly Admitted[] | Conflicted> {
    const cases = await casesOf(request.caller, request.drafts)
    const passed = await platform.pass(cases)
    let result: readonly Admitted[] | Conflicted = conflicted
    try {
      const behind = cases.filter((each) => each.verdict !== undefined)
      await decider.decide(cases)
      if (behind.length > 0)
        await passed.takeBack(behind.filter((each) => each.verdict?.status === 'suppressed'))
      result = await accept(request, cases)
    } finally {
      if (result === conflicted) {
        await giveUp(cases)
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

  /** Commits what was decided. */
  async function accept(request: Admit, cases: readonly Case[]): Promise<readonly Admitted[] | Conflicted> {
    const { caller, job } = request
    const notifications = cases.map((each) => accepted(each.notification, each.verdict!))
    const results = notifications.map(admitted)
    const answer = request.answer
    const held = job === undefined ? {} : { queue: 0, critical: 0, bytes: 0 }
    const contents = [...new Set(cases.flatMap(({ content }) => content ?? []))]
    const room = roomFor(notifications, contents)
    const giveRoomBack = ledger.claimRoom(caller.tenant, { ...room, ...held })
    try {
      const change: Change = {
        ...(contents.length === 0 ? {} : { contents }),
        accept: notifications,
        ...digestWrites(cases),
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
    follow(cases, notifications)
    return results
  }

  /** Throws where deciding anew would not help: the job has moved on, or the request was answered meanwhile. */
  async function refuseRepeated({ job }: Admit, { answer }: Change, conflicts: readonly string[]) {
    if (job !== undefined && conflicts.includes(job.before.id))
      throw new SluiceError('STORE_UNAVAILABLE', `Job ${job.before.id} has moved on meanwhile.`)
    if (answer !== undefined && (await store.answer(answer)) !== undefined)
      throw new SluiceError(
        'IDEMPOTENCY_IN_PROGRESS',
        'A request with this Idempotency-Key was just accepted.',
      )
  }

  function follow(cases: readonly Case[], notifications: readonly Notification[]): void {
    for (const { verdict } of cases) {
      if (verdict?.digest === undefined) continue
      const { digest, opens } = verdict.digest
      if (opens) digests.opened(digest)
      agenda.noteDigest(digest.closesAt)
    }
    agenda.place(notifications)
    for (const [index, { notification, person, verdict }] of cases.entries()) {
      if (verdict?.waitlisted === true)
        movingUp
          .enlist(notifications[index]!, person)
          .catch((error) => onTrouble('put one on the waiting list', error))
      if (verdict?.booked !== true || verdict.status !== 'scheduled') continue
      const { tenant, to } = notification
      if (people.cached(tenant, to.id) === person) continue
      hurry(tenant, to.id).catch((error) => onTrouble('let those who wait move up', error))
    }
  }

  /** Somebody's preferences have changed while this was decided by the former ones: it may be admitted earlier. */
  async function hurry(tenant: string, recipient: string): Promise<void> {
    const subject = personSubject(tenant, recipient)
    await state.pause([subject])
    await movingUp.freed([subject])
  }

  async function giveUp(cases: readonly Case[]): Promise<void> {
    await decider.takeBack(cases)
    for (const { verdict } of cases) if (verdict?.digest !== undefined) digests.forget(verdict.digest.digest)
  }

  return { casesOf, admit, follow, giveUp }
}

function admitted(notification: Notification): Admitted {
  const queuedBehind = delayingLimit(notification)
  return queuedBehind === undefined ? { ok: true, notification } : { ok: true, notification, queuedBehind }
}

/** One write for each digest that they join, at the earliest instant that one of them was told. */
export function digestWrites(cases: readonly Case[]): { readonly digests?: readonly DigestWrite[] } {
  const writes = new Map<string, DigestWrite>()
  for (const { verdict } of cases) {
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
