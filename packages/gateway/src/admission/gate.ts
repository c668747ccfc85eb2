/**
 * Everything that wants to be sent passes here. What is accepted is decided and on disk before the caller is told;
 * what is refused leaves nothing behind, neither on record nor in the limits. The same gate decides again whatever
 * changes its prospects later: a preference, a platform limit that frees, a digest that closes, a redrive.
 */

import type { Admit, Admitted, Agenda, Book, Caller, Gate, Ledger, Room } from '../doors.ts'
import { SluiceError } from '../errors.ts'
import type { Channel, Decision, Digest, Draft, Notification, Patch, Recipient } from '../model.ts'
import { advance, isFinal } from '../model.ts'
import type { Policy } from '../policy/policy.ts'
import type { Clock, DigestWrite, LimitState, Random, Store } from '../ports.ts'
import { accepted, type Case } from './case.ts'
import { createDecider, type Deciding, moveTo } from './decide.ts'
import { createDigestCloser } from './digest-closer.ts'
import { fingerprint } from './fingerprint.ts'
import type { GiveBack } from './giving-back.ts'
import type { Hours } from './hours.ts'
import { createOpenDigests } from './open-digests.ts'
import type { PeopleCache } from './people.ts'
import type { PlatformLine } from './platform.ts'
import { createUsage } from './usage.ts'

export interface GateOptions {
  readonly store: Store
  readonly ledger: Ledger
  readonly state: LimitState
  readonly book: Book
  readonly people: PeopleCache
  readonly policy: Policy
  readonly hours: Hours
  readonly agenda: Agenda
  readonly platform: PlatformLine
  readonly giveBack: GiveBack
  /** Channels on which the accounts themselves say where to. */
  readonly selfAddressed: ReadonlySet<Channel>
  readonly clock: Clock
  readonly random: Random
}

/** A change that met another one is decided anew; more often than this is a defect. */
const triesMax = 8
const redrivePage = 200
/** A raised limit may let thousands pass in one instant. */
const calledAtOnce = 100
/** Until what was due and could not be decided is tried again. */
const againMs = 500

export function createGate(options: GateOptions): Gate {
  const { store, ledger, state, book, people, policy, hours, agenda, platform, giveBack, clock, random } =
    options
  const { selfAddressed } = options
  const digests = createOpenDigests({ store, random })
  const decider = createDecider({ policy, book, state, hours, digests, selfAddressed, clock })
  const closer = createDigestCloser({
    store,
    ledger,
    book,
    people,
    policy,
    agenda,
    digests,
    decider,
    hours,
    giveBack,
    clock,
    random,
  })
  const usage = createUsage({ state, policy, store, clock })
  /** Those whose turn is being taken: the agenda and the line may both name them. */
  const turning = new Set<string>()

  async function personOf(tenant: string, recipient: string): Promise<Recipient | null> {
    const cached = people.cached(tenant, recipient)
    return cached === undefined ? people.find(tenant, recipient) : cached
  }

  function draftToNotification(caller: Caller, draft: Draft, now: number): Notification {
    return {
      ...draft,
      id: random.id(now),
      tenant: caller.tenant,
      module: caller.module,
      createdAt: now,
      fingerprint: fingerprint(caller.tenant, draft),
      status: 'accepted',
      dueAt: now,
      decision: { outcome: 'send', policyVersion: policy.version, rules: [] },
      attempts: 0,
      timeline: [],
    }
  }

  async function casesOf(caller: Caller, drafts: readonly Draft[], now: number): Promise<Case[]> {
    const cases: Case[] = []
    for (const draft of drafts) {
      const notification = draftToNotification(caller, draft, now)
      cases.push({ notification, person: await personOf(caller.tenant, draft.to.id) })
    }
    return cases
  }

  async function admit(request: Admit): Promise<readonly Admitted[]> {
    for (let tries = 1; ; tries += 1) {
      const now = clock.now()
      const cases = await casesOf(request.caller, request.drafts, now)
      const passed = await platform.pass(cases)
      try {
        const behind = cases.filter((each) => each.verdict !== undefined)
        await decider.decide(cases)
        if (behind.length > 0)
          await passed.takeBack(behind.filter((each) => each.verdict?.status === 'suppressed'))
        const result = await accept(request, cases)
        if (result !== undefined) return result
      } catch (error) {
        await giveUp(cases)
        await passed.takeBack()
        throw error
      }
      await giveUp(cases)
      await passed.takeBack()
      if (tries === triesMax) break
    }
    throw new SluiceError('STORE_UNAVAILABLE', 'The notification met too many changes at once. Try again.', {
      retryAfterMs: 1_000,
    })
  }

  /** Commits what was decided; undefined where something had changed meanwhile. */
  async function accept(request: Admit, cases: readonly Case[]): Promise<readonly Admitted[] | undefined> {
    const results = cases.map((each): Admitted & { ok: true } => {
      const notification = accepted(each.notification, each.verdict!)
      const queuedBehind = platform.behind(notification)
      return { ok: true, notification, ...(queuedBehind === undefined ? {} : { queuedBehind }) }
    })
    const notifications = results.map((result) => result.notification)
    const room = roomFor(notifications)
    const { job } = request
    const held = job === undefined ? {} : { queue: 0, critical: 0 }
    const giveRoomBack = ledger.claimRoom(request.caller.tenant, { ...room, ...held })
    try {
      const answer = request.answer?.(results)
      const result = await ledger.commit({
        accept: notifications,
        ...digestWrites(cases),
        ...(answer === undefined ? {} : { answer }),
        ...(job === undefined ? {} : { jobs: [{ kind: 'move' as const, ...job }] }),
      })
      if (!result.applied) {
        if (job !== undefined && result.conflicts.includes(job.before.id)) {
          throw new SluiceError('STORE_UNAVAILABLE', `Job ${job.before.id} has moved on meanwhile.`)
        }
        if (answer !== undefined && (await store.answer(answer)) !== undefined) {
          throw new SluiceError(
            'IDEMPOTENCY_IN_PROGRESS',
            'A request with this Idempotency-Key was just accepted.',
          )
        }
        return undefined
      }
    } finally {
      giveRoomBack()
    }
    follow(cases, notifications)
    return results
  }

  /** What is on record now goes its way. */
  function follow(cases: readonly Case[], notifications: readonly Notification[]): void {
    for (const { verdict } of cases)
      if (verdict?.digest?.opens === true) agenda.noteDigest(verdict.digest.digest.closesAt)
    agenda.place(notifications)
  }

  async function giveUp(cases: readonly Case[]): Promise<void> {
    await decider.takeBack(cases)
    for (const each of cases) {
      if (each.verdict?.digest !== undefined) digests.forget(each.verdict.digest.digest)
    }
  }

  /** What is due and undecided. What stood in the line before its tenant's limits passes now, or has a later place. */
  async function resume(notification: Notification): Promise<void> {
    if (platform.behind(notification) === undefined) {
      await redecide(notification, {})
      return
    }
    if (turning.has(notification.id)) return
    turning.add(notification.id)
    try {
      const { passed, at } = await platform.turn(notification)
      await redecide(notification, passed ? {} : { waitsUntil: at }, passed ? { turnedAt: at } : {})
    } finally {
      turning.delete(notification.id)
    }
  }

  /** Decides anew what is on record and writes the move; tries again where the record has moved meanwhile. */
  async function redecide(
    before: Notification,
    { waitsUntil, ...how }: Deciding & { readonly waitsUntil?: number },
    patch: Patch = {},
  ): Promise<boolean> {
    const person = await personOf(before.tenant, before.to.id)
    const path = ledger.live(before.id)?.events ?? []
    ledger.release(before)
    const each: Case = { notification: { ...before, ...patch }, person }
    try {
      if (waitsUntil !== undefined) platform.wait(each, waitsUntil)
      await decider.decide([each], { ...how, again: true })
      const verdict = each.verdict!
      const move = moveTo(before, clock.now(), { ...verdict, patch: { ...patch, ...verdict.patch } }, path)
      const result = await ledger.commit({ moves: [move], ...digestWrites([each]) })
      if (result.applied) {
        follow([each], [move.after])
        if (verdict.status === 'suppressed') await giveBack(before, verdict.status)
        return true
      }
    } catch (error) {
      await giveUp([each])
      const now = clock.now()
      if (before.status !== 'scheduled' || before.dueAt > now) agenda.place([before])
      else {
        ledger.hold(before)
        agenda.postpone(before, now + againMs)
      }
      throw error
    }
    await giveUp([each])
    return false
  }

  async function cancel(tenant: string, id: string): Promise<void> {
    for (let tries = 0; tries < triesMax; tries += 1) {
      const notification = await store.notification(tenant, id)
      if (notification === undefined) throw new SluiceError('NOT_FOUND', `There is no notification ${id}.`)
      if (notification.status === 'cancelled') return
      const live = ledger.live(id)
      if (isFinal(notification.status) || live?.status === 'sending') {
        const state = isFinal(notification.status) ? notification.status : 'being sent'
        throw new SluiceError('NOT_CANCELLABLE', `Notification ${id} is ${state}.`)
      }
      const before = live?.notification ?? notification
      const path = live?.events ?? []
      ledger.release(before)
      const now = clock.now()
      const move = advance(before, [...path, { at: now, status: 'cancelled' }], { dueAt: now })
      try {
        if ((await ledger.commit({ moves: [move] })).applied) {
          await giveBack(before, 'cancelled')
          return
        }
      } catch (error) {
        agenda.place([before])
        throw error
      }
    }
    throw new SluiceError('NOT_CANCELLABLE', `Notification ${id} is on its way.`)
  }

  async function saveRecipient(person: Recipient): Promise<void> {
    const before = await personOf(person.tenant, person.id)
    await ledger.commit({ recipients: [person] })
    people.put(person)
    const prospectsChanged =
      before?.timeZone !== person.timeZone ||
      JSON.stringify(before?.quietHours) !== JSON.stringify(person.quietHours)
    for (const notification of await store.waiting(person.tenant, person.id)) {
      await review(notification, prospectsChanged)
    }
  }

  /** A preference has changed: what waits obeys it at once. */
  async function review(recorded: Notification, prospectsChanged: boolean): Promise<void> {
    const live = ledger.live(recorded.id)
    if (live?.status === 'sending') return
    const notification = live?.notification ?? recorded
    const person = await personOf(notification.tenant, notification.to.id)
    const refused = decider.refusal({ notification, person }) !== undefined
    const holds =
      notification.status !== 'digesting' && notification.undecided !== true && notification.attempts === 0
    if (!refused && !(prospectsChanged && holds)) return
    await book.cancel([{ notification, person }])
    await redecide(notification, refused ? {} : { patient: true })
  }

  return {
    admit,
    cancel,
    saveRecipient,
    usage,
    closeDigest: closer.close,

    async preview(caller, draft): Promise<{ draft: Draft; decision: Decision }> {
      const [each] = await casesOf(caller, [draft], clock.now())
      await platform.preview(each!)
      await decider.decide([each!], { dry: true })
      const channel = each!.verdict!.patch?.channel
      return {
        draft: channel === undefined ? draft : { ...draft, channel },
        decision: each!.verdict!.decision,
      }
    },

    async resume(notifications) {
      await Promise.all(notifications.map(resume))
    },

    async callUp(tenant, ids) {
      const callOne = async (id: string): Promise<void> => {
        const notification = ledger.live(id)?.notification ?? (await store.notification(tenant, id))
        if (notification !== undefined && platform.behind(notification) !== undefined)
          await resume(notification)
      }
      for (let from = 0; from < ids.length; from += calledAtOnce)
        await Promise.all(ids.slice(from, from + calledAtOnce).map(callOne))
    },

    async redrive(query) {
      let redriven = 0
      let cursor: string | undefined
      do {
        const page = await store.deadLetters({
          ...query,
          ...(cursor === undefined ? {} : { cursor }),
          limit: redrivePage,
        })
        for (const notification of page.items) {
          const person = await personOf(notification.tenant, notification.to.id)
          await book.cancel([{ notification, person }])
          if (await redecide(notification, { patient: true }, { attempts: 0 })) redriven += 1
        }
        cursor = page.nextCursor ?? undefined
      } while (cursor !== undefined)
      return redriven
    },
  }
}

function digestWrites(cases: readonly Case[]): { readonly digests?: readonly DigestWrite[] } {
  const opened = new Set<string>()
  const writes: DigestWrite[] = []
  for (const { verdict } of cases) {
    if (verdict?.digest === undefined) continue
    const { digest, opens }: { digest: Digest; opens: boolean } = verdict.digest
    if (opens) opened.add(digest.id)
    writes.push({ kind: opens ? 'open' : 'join', digest })
  }
  if (writes.length === 0) return {}
  return { digests: writes.filter((write) => write.kind !== 'join' || !opened.has(write.digest.id)) }
}

function roomFor(notifications: readonly Notification[]): Room {
  const room = { queue: 0, critical: 0, waiting: 0 }
  for (const { status, priority, decision } of notifications) {
    if (status === 'digesting') room.waiting += 1
    else if (status === 'queued') room[priority === 'critical' ? 'critical' : 'queue'] += 1
    else if (status === 'scheduled') {
      const platformDelayed = decision.reason === 'tenant_limit' || decision.reason === 'module_limit'
      room[platformDelayed ? 'queue' : 'waiting'] += 1
    }
  }
  return room
}
