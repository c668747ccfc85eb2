/**
 * Everything that is known of one subject in memory, and what each question does to it. Nearly always nothing is
 * booked and nothing lies in the future, and then there is a fast path. Everything else takes the general path. Time comes in as an argument.
 */
import { type Decision, nobody, Outcome } from '../decision.ts'
import { leave } from '../forbidden.ts'
import type { Plan } from '../plan.ts'
import { type AnyLog, instantAt } from '../rolling-window.ts'
import {
  type BlockChange,
  blockId,
  plainTerms,
  type RestoredEntry,
  type Terms,
  unboundMs,
  unclaimedMs,
  unitsMax,
} from '../store.ts'
import { type Entry, entryOf } from './entry.ts'
import { EventLog } from './event-log.ts'
import { EventLogs } from './event-logs.ts'
import { admitted, answered, eventLogStanding, standingOf } from './fast-path.ts'
import { generalPath } from './general-path.ts'
import type { SubjectEntries } from './subject-entries.ts'

/** Ids are looked through for forgotten ones when there are this many, and then each time they have doubled. */
const idsMin = 64
/** A subject of which no window was ever asked is looked at again after this time. */
const unaskedLookMs = 3_600_000
export const noEventLogs: readonly EventLog[] = []

export class Subject implements SubjectEntries {
  readonly key: string
  /** The plan for which `eventLog` and the choice of event logs are right. */
  #plan: Plan | undefined = undefined
  /** The event log of all streams of the plan at hand, where they share one. */
  eventLog: EventLog | undefined = undefined
  ids: Map<string, Entry> | undefined = undefined
  /** Made when a second event log or an id comes: most subjects have neither, and stay small. */
  #eventLogs: EventLogs | undefined = undefined
  #idsMax = idsMin

  /** @param eventLogs known already, read from elsewhere */
  constructor(key: string, eventLogs?: readonly EventLog[]) {
    this.key = key
    if (eventLogs === undefined || eventLogs.length === 0) return
    this.#eventLogs = new EventLogs(undefined)
    this.#eventLogs.all = eventLogs
  }

  /** The commonest call goes a way so short that the compiler makes one piece of it: no id, one unit, one event log. */
  take(plan: Plan, id: string | undefined, terms: Terms, now: number): Decision {
    const { eventLog } = this
    const isPlain = id === undefined && terms === plainTerms && plan === this.#plan
    if (
      isPlain &&
      eventLog !== undefined &&
      !this.#isBlocked(now) &&
      eventLogStanding(plan.rules, eventLog, 1, now) === 'admits'
    ) {
      const { instants } = eventLog
      const { length } = instants
      eventLog.appendFired(now, 1)
      return new Outcome(true, true, true, now, 0, undefined, now, nobody, nobody, plan, 1, instants, length)
    }
    return this.#take(plan, id, terms, now)
  }

  #take(plan: Plan, id: string | undefined, terms: Terms, now: number): Decision {
    this.attend(plan)
    const { weight } = terms
    const isOther = weight > unitsMax || this.#isKnown(id) || this.#isBlocked(now)
    const standing = isOther ? 'unknown' : standingOf(plan, this, weight, now)
    if (standing === 'admits') {
      const decision = admitted(now, true, plan, weight, this)
      this.#append(now, weight)
      if (id !== undefined) this.remember(id, entryOf(now, weight, true, false, this.eventLogs), now)
      return decision
    }
    if (standing === 'unknown' || plan.countRefused.length > 0)
      return generalPath('take', this, plan, id, terms, now)
    return answered(plan, weight, this, now)
  }

  check(plan: Plan, _id: string | undefined, terms: Terms, now: number): Decision {
    this.attend(plan)
    const { weight } = terms
    const standing = this.#isBlocked(now) ? 'unknown' : standingOf(plan, this, weight, now)
    if (standing === 'unknown') return generalPath('check', this, plan, undefined, terms, now)
    return answered(plan, weight, this, now)
  }

  reserve(plan: Plan, id: string, terms: Terms, now: number): Decision {
    this.attend(plan)
    const { weight, firm } = terms
    const isClosed = weight > unitsMax || !isOpen(terms, now) || this.#isBlocked(now)
    if (isClosed || this.#isKnown(id) || standingOf(plan, this, weight, now) !== 'admits') {
      return generalPath('reserve', this, plan, id, terms, now)
    }
    const decision = admitted(now, firm, plan, weight, this)
    if (firm) this.#append(now, weight)
    else for (const eventLog of this.eventLogs) eventLog.insertBooked(now, weight)
    this.remember(id, entryOf(now, weight, firm, terms.priority === 'low', this.eventLogs), now)
    return decision
  }

  fire(plan: Plan, id: string, terms: Terms, now: number): Decision {
    this.attend(plan)
    const own = this.ids?.get(id)
    // An id that has gone already is moved, and only the general path says so.
    if (own === undefined || own.fired || own.weight > unitsMax || this.#isBlocked(now))
      return generalPath('fire', this, plan, id, terms, now)
    this.takeOut(own)
    if (!isOpen(terms, now) || standingOf(plan, this, own.weight, now) !== 'admits') {
      this.putBack(own, now)
      return generalPath('fire', this, plan, id, terms, now)
    }
    const decision = admitted(now, true, plan, own.weight, this)
    this.#append(now, own.weight)
    own.at = now
    own.fired = true
    own.eventLogs = this.eventLogs
    return decision
  }

  force(plan: Plan, id: string | undefined, terms: Terms, now: number): Decision {
    this.attend(plan)
    return generalPath('force', this, plan, id, terms, now)
  }

  preview(plan: Plan, id: string | undefined, terms: Terms, now: number): Decision {
    this.attend(plan)
    return generalPath('preview', this, plan, id, terms, now)
  }

  #append(now: number, weight: number): void {
    if (this.eventLog !== undefined) this.eventLog.appendFired(now, weight)
    else for (const eventLog of this.eventLogs) eventLog.appendFired(now, weight)
  }

  cancel(id: string): boolean {
    const entry = this.ids?.get(id)
    if (entry === undefined) return false
    this.takeOut(entry)
    this.forgetId(id)
    return true
  }

  /** A block is an id that no stream counts, so that it is kept, written and dropped like one. */
  block(ms: number, now: number): BlockChange {
    const change = { stood: this.#isBlocked(now), until: now + ms }
    if (ms === 0) this.forgetId(blockId)
    else this.remember(blockId, entryOf(change.until, 1, true, false, noEventLogs), now)
    return change
  }

  /** The end of the block that stands now. */
  blockedUntil(now: number): number | undefined {
    const until = this.ids?.get(blockId)?.at
    return until !== undefined && until > now ? until : undefined
  }

  #isBlocked(now: number): boolean {
    return this.ids !== undefined && this.blockedUntil(now) !== undefined
  }

  #isKnown(id: string | undefined): boolean {
    return id !== undefined && this.ids?.has(id) === true
  }

  restore(entries: readonly RestoredEntry[], now: number): void {
    for (const { id, at, fired, streams, weight = plainTerms.weight } of entries) {
      if (this.ids?.has(id)) continue
      const entry = entryOf(at, weight, fired, false, this.#cover([...new Set(streams)]))
      this.putBack(entry, now)
      this.remember(id, entry, now)
    }
  }

  /** The event logs of the plan at hand, each once. */
  get eventLogs(): readonly EventLog[] {
    this.#eventLogs ??= new EventLogs(this.eventLog)
    return this.#eventLogs.chosen
  }

  /** The event log of each stream of the plan at hand, in its order; only where they do not share one. */
  get planLogs(): readonly EventLog[] {
    return this.#eventLogs?.planLogs ?? noEventLogs
  }

  /** Brings `eventLog`, `eventLogs` and `planLogs` to a plan. */
  attend(plan: Plan): void {
    if (plan !== this.#plan) this.#planLog(plan)
  }

  #planLog(plan: Plan): void {
    if (!this.#seatAlone(plan)) this.#seatAmongOthers(plan)
    const { eventLog, planLogs } = this
    for (let index = 0; index < plan.streams.length; index += 1) {
      const planLog = eventLog ?? planLogs[index]!
      for (const { maxWritten, windowMs } of plan.rulesByStream[index]!) planLog.learn(maxWritten, windowMs)
    }
    // An array of limits that was made for one call must not be kept alive by the subject.
    this.#plan = plan.recurs ? plan : undefined
  }

  /** Takes the one event log of a subject whose streams are those of the plan and count together. */
  #seatAlone({ streams, countRefused }: Plan): boolean {
    if (this.#eventLogs !== undefined || streams.length === 0) return false
    if (countRefused.length > 0 && countRefused.length < streams.length) return false
    if (this.eventLog === undefined) {
      this.eventLog = new EventLog(streams)
      return true
    }
    const { names } = this.eventLog
    return names.length === streams.length && streams.every((name) => names.includes(name))
  }

  #seatAmongOthers({ streams, countRefused }: Plan): void {
    // A refused call may count in some of the streams only, so that those must have event logs of their own.
    this.#cover(countRefused.map((index) => streams[index]!))
    const chosen = this.#cover(streams)
    const eventLogs = this.#eventLogs!
    this.eventLog = chosen.length === 1 ? chosen[0]! : undefined
    eventLogs.chosen = chosen
    eventLogs.planLogs =
      this.eventLog === undefined ? streams.map((name) => eventLogs.of(name)!) : noEventLogs
  }

  #cover(names: readonly string[]): readonly EventLog[] {
    this.#eventLogs ??= new EventLogs(this.eventLog)
    return this.#eventLogs.cover(names, (eventLog, twin) => {
      this.#plan = undefined
      for (const entry of this.ids?.values() ?? []) {
        if (entry.eventLogs.includes(eventLog)) entry.eventLogs = [...entry.eventLogs, twin]
      }
    })
  }

  /** Takes an entry's instants out of its event logs; the id stays. */
  takeOut(entry: Entry): void {
    const { eventLogs, at, weight } = entry
    for (let index = 0; index < eventLogs.length; index += 1) {
      if (entry.fired) eventLogs[index]!.removeFired(at, weight)
      else eventLogs[index]!.removeBooked(at, weight)
    }
  }

  /** Inserts an entry's instants in its event logs. */
  putBack(entry: Entry, now: number): void {
    const { eventLogs, at, weight } = entry
    for (let index = 0; index < eventLogs.length; index += 1) {
      if (entry.fired) eventLogs[index]!.insertFired(at, weight, now)
      else eventLogs[index]!.insertBooked(at, weight)
    }
  }

  remember(id: string, entry: Entry, now: number): void {
    this.ids ??= new Map()
    this.ids.set(id, entry)
    if (this.ids.size > this.#idsMax) this.#forgetIds(now, Number.POSITIVE_INFINITY)
  }

  forgetId(id: string): void {
    this.ids?.delete(id)
    if (this.ids?.size === 0) this.ids = undefined
  }

  /**
   * Drops what counted longer than `retentionMs` ago (or the longest window, where that is more) and bookings that
   * are overdue. Answers when something of it may be over next, or undefined where nothing is left.
   */
  expire(now: number, retentionMs: number): number | undefined {
    for (const eventLog of this.#all)
      eventLog.dropUntil(now - eventLog.keptMs(retentionMs), now - unclaimedMs)
    if (this.#eventLogs === undefined ? this.eventLog?.isEmpty === true : this.#eventLogs.dropEmpty()) {
      this.#plan = undefined
      this.eventLog = undefined
    }
    if (this.ids !== undefined) this.#forgetIds(now)
    if (this.ids === undefined && this.#all.length === 0) return undefined
    return this.#overAt(now, retentionMs)
  }

  /** All event logs of the subject, whatever the plan at hand counts. */
  get #all(): readonly EventLog[] {
    return this.#eventLogs?.all ?? (this.eventLog === undefined ? noEventLogs : [this.eventLog])
  }

  #overAt(now: number, retentionMs: number): number {
    let over = 0
    for (const eventLog of this.#all) {
      const { counted, booked } = eventLog
      if (eventLog.windowMsMax === 0) return now + unaskedLookMs
      const last = (log: AnyLog): number => instantAt(log, log.length - 1)
      if (counted.length > 0) over = Math.max(over, last(counted) + eventLog.keptMs(retentionMs))
      if (booked.length > 0) over = Math.max(over, last(booked) + unclaimedMs)
    }
    for (const { at, eventLogs } of this.ids?.values() ?? [])
      if (eventLogs.length === 0) over = Math.max(over, at + unboundMs)
    return over
  }

  /** Ids whose instants no event log retains any more are unknown again. */
  #forgetIds(now: number, unclaimed = unclaimedMs): void {
    const ids = this.ids!
    for (const [id, { at, fired, eventLogs }] of ids) {
      const bound = eventLogs.length === 0 ? unboundMs : unclaimed
      const dropped =
        fired &&
        eventLogs.length > 0 &&
        eventLogs.every(({ counted }) => counted.length === 0 || at < instantAt(counted, 0))
      if (dropped || at <= now - bound) ids.delete(id)
    }
    this.#idsMax = Math.max(idsMin, 2 * ids.size)
    if (ids.size === 0) this.ids = undefined
  }
}

/** Tells whether notBefore and the forbidden intervals let something go now. */
function isOpen(terms: Terms, now: number): boolean {
  return terms.notBefore <= now && leave(terms.forbidden, now) === now
}
