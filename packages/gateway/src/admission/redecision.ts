/**
 * What is on record is decided anew when its prospects change: it is due and was undecided, its turn in a line has come,
 * its person changed a preference, an operator brings it back from the dead letters. Each ends in one move.
 */
import type { Agenda, Book, Ledger } from '../doors.ts'
import type { Notification, Patch, Recipient } from '../model.ts'
import { personSubject } from '../policy/subject.ts'
import type { Clock, LimitState, Store } from '../ports.ts'
import { type Acceptance, digestWrites } from './acceptance.ts'
import type { Case, Deciding } from './case.ts'
import { type Decider, moveTo } from './decider.ts'
import type { GiveBack } from './giving-back.ts'
import type { Hours } from './hours.ts'
import type { MovingUp } from './moving-up.ts'
import type { PeopleCache } from './people.ts'
import type { PlatformLine } from './platform.ts'

export interface RedecisionOptions {
  readonly store: Pick<Store, 'notification' | 'waiting'>
  readonly ledger: Ledger
  readonly book: Book
  readonly people: PeopleCache
  readonly agenda: Agenda
  readonly decider: Decider
  readonly acceptance: Pick<Acceptance, 'follow' | 'giveUp'>
  readonly platform: PlatformLine
  readonly giveBack: GiveBack
  readonly state: Pick<LimitState, 'pause'>
  readonly hours: Pick<Hours, 'reasonAt'>
  readonly movingUp: Pick<MovingUp, 'freed'>
  readonly clock: Clock
}

export interface Redecision {
  /** What is due and undecided. What stood in the line before its tenant's limits passes now, or has a later place. */
  resume(notifications: readonly Notification[]): Promise<void>
  /** Those whose turn in the line has come before the instant on record. */
  callUp(tenant: string, ids: readonly string[]): Promise<void>
  /** One dead letter, on its way again; false where the record has moved meanwhile. */
  bringBack(dead: Notification): Promise<boolean>
  /** Writes what a person wants, and lets what waits for them obey it at once. */
  saveRecipient(person: Recipient): Promise<void>
}

/** A raised limit may let thousands pass in one instant. */
const calledAtOnce = 100
/** Until what was due and could not be decided is tried again. */
const againMs = 500

export function createRedecision(options: RedecisionOptions): Redecision {
  const { store, ledger, book, people, agenda, decider, acceptance, platform, giveBack, clock } = options
  const { state, hours, movingUp } = options
  /** Those whose turn is being taken: the agenda and the line may both name them. */
  const turning = new Set<string>()

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

  /** Writes the move to a new verdict; false where the record has moved meanwhile. */
  async function redecide(
    before: Notification,
    { waitsUntil, ...how }: Deciding & { readonly waitsUntil?: number },
    patch: Patch = {},
  ): Promise<boolean> {
    const person = await people.find(before.tenant, before.to.id)
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
        acceptance.follow([each], [move.after])
        if (verdict.status === 'suppressed') await giveBack(before, verdict.status)
        return true
      }
    } catch (error) {
      await acceptance.giveUp([each])
      tryAgain(before)
      throw error
    }
    await acceptance.giveUp([each])
    return false
  }

  function tryAgain(notification: Notification): void {
    const now = clock.now()
    if (notification.status !== 'scheduled' || notification.dueAt > now) agenda.place([notification])
    else {
      ledger.hold(notification)
      agenda.postpone(notification, now + againMs)
    }
  }

  async function callOne(tenant: string, id: string): Promise<void> {
    const notification = ledger.live(id)?.notification ?? (await store.notification(tenant, id))
    if (notification !== undefined && platform.behind(notification) !== undefined) await resume(notification)
  }

  /**
   * A preference has changed: what is not wanted any more ends, and what was to leave in hours that are quiet now is
   * booked anew for later. What may leave earlier moves up after.
   */
  async function review(recorded: Notification): Promise<void> {
    const live = ledger.live(recorded.id)
    if (live?.status === 'sending') return
    const notification = live?.notification ?? recorded
    const person = await people.find(notification.tenant, notification.to.id)
    const refused = decider.refusal({ notification, person }) !== undefined
    const holds =
      notification.status !== 'digesting' && notification.undecided !== true && notification.attempts === 0
    const leavesAt = Math.max(clock.now(), notification.dueAt)
    const isForbidden = holds && hours.reasonAt(notification, person, leavesAt) !== undefined
    if (!refused && !isForbidden) return
    await book.cancel([{ notification, person }])
    await redecide(notification, refused ? {} : { patient: true, waited: true })
  }

  return {
    async resume(notifications) {
      await Promise.all(notifications.map(resume))
    },

    async callUp(tenant, ids) {
      for (let from = 0; from < ids.length; from += calledAtOnce)
        await Promise.all(ids.slice(from, from + calledAtOnce).map((id) => callOne(tenant, id)))
    },

    async bringBack(dead) {
      const person = await people.find(dead.tenant, dead.to.id)
      await book.cancel([{ notification: dead, person }])
      return redecide(dead, { patient: true }, { attempts: 0 })
    },

    async saveRecipient(person) {
      const subject = personSubject(person.tenant, person.id)
      // No newcomer is to gain by what this changes before those who wait.
      await state.pause([subject])
      try {
        await ledger.commit({ recipients: [person] })
        people.put(person)
        for (const notification of await store.waiting(person.tenant, person.id)) await review(notification)
      } finally {
        await movingUp.freed([subject])
      }
    },
  }
}
