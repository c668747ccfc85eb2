/**
 * Plans what became due while no gateway ran. Not all of it may leave at once; whichever left first would push those that
 * were promised an instant before it, and newcomers would be promised places that others need. Each notification that
 * waits in the subject, and in those that share notifications with it, gets the earliest instant that its limits admit
 * behind those that were promised earlier. Nothing is written here: the limiter's state is filled with the plan.
 */
import type { RestoredEntry } from '@sluice/limits'
import type { Clock, Subject } from '../ports.ts'
import { createSlotPlan, type HeldInstant, inOrder } from './slot-plan.ts'

/** The instants of a subject: those that count, and those that notifications hold. */
export interface SubjectInstants {
  readonly fired: readonly RestoredEntry[]
  /** All that were promised an instant before `until`, epoch ms. */
  readonly held: readonly HeldInstant[]
  readonly until: number
}

export interface OverduePlansOptions {
  /** Reads a subject from the record, to the last that waits. */
  readonly read: (subject: Subject) => Promise<SubjectInstants>
  /** A notification affects no instant further away than this, ms: the longest window with its margin. */
  readonly reachMs: () => number
  readonly clock: Pick<Clock, 'now' | 'soon'>
  /** Every window is kept so much longer than it is written, ms. */
  readonly marginMs: number
}

export interface OverduePlans {
  /**
   * Returns the planned instants of notifications of a subject, by id, where they are later than those on record.
   * `near` gives what is known of the subject without another read, of those that are due soonest.
   */
  placesOf(
    subject: Subject,
    entries: readonly Pick<RestoredEntry, 'id' | 'at' | 'fired'>[],
    near: () => SubjectInstants,
  ): Promise<ReadonlyMap<string, number>>
  /** The same of a subject that is still being read; undefined where a plan needs more than what is known. */
  soonPlacesOf(
    subject: Subject,
    entries: readonly Pick<RestoredEntry, 'id' | 'at' | 'fired'>[],
    near: SubjectInstants,
  ): Promise<ReadonlyMap<string, number> | undefined>
}

interface Planned {
  /** The instant on record for which it was planned. */
  readonly promised: number
  readonly at: number
  readonly plannedAt: number
}

/** Planned in one turn of the event loop: some 5 ms. */
const sliceMax = 500
/**
 * Subjects that are read for one plan: a limit over all recipients may have as many as wait for it. Notifications of
 * further recipients are planned without the limits of these, and `fire` asks them.
 */
const subjectsMax = 1_000
/** A notification that is due for less than this is on its way to be sent: ms. */
const overdueMs = 1_000
/** A plan is made again where something of it is overdue for longer than this, ms. */
const plannedMs = 60_000
/** Notifications whose plans are kept: a plan of more is kept until the next one. */
const keptMax = 100_000

export function createOverduePlans({ read, reachMs, clock, marginMs }: OverduePlansOptions): OverduePlans {
  let plans = new Map<string, Planned>()
  /** The latest instant of the plans that are kept. */
  let plansUntil = Number.NEGATIVE_INFINITY
  /** Plans are made one after the other: subjects that share notifications are filled together. */
  let last: Promise<unknown> = Promise.resolve()

  function plannedOf({ id, at: promised }: Pick<HeldInstant, 'id' | 'at'>, now: number): Planned | undefined {
    const planned = plans.get(id)
    if (planned === undefined || planned.promised !== promised) return undefined
    return planned.at > now || planned.plannedAt > now - plannedMs ? planned : undefined
  }

  /** Reads the subjects that share notifications with this one, those of the earliest promises first. */
  async function readAll(subject: Subject, instants: SubjectInstants) {
    const all = new Map([[subject.key, instants]])
    for (const { held } of all.values())
      for (const { limits } of inOrder(held))
        for (const { subject: other } of limits)
          if (all.size < subjectsMax && !all.has(other.key)) all.set(other.key, await read(other))
    return all
  }

  /** Plans a subject; false where those behind the last one known would have to be planned too. */
  async function plan(subject: Subject, instants: SubjectInstants): Promise<boolean> {
    const all = await readAll(subject, instants)
    const now = clock.now()
    const fired = new Map([...all].map(([key, instants]) => [key, instants.fired]))
    const slots = createSlotPlan({ now, marginMs, subjects: fired })
    const held = new Map([...all.values()].flatMap((each) => each.held.map((one) => [one.id, one])))
    const made = new Map<string, Planned>()
    /** From here on nobody meets one that leaves later than it was promised. */
    let end = now
    for (const each of inOrder([...held.values()])) {
      if (each.at > end) break
      const at = slots.place(each, Math.max(now, each.at))
      if (at > each.at) end = Math.max(end, at + reachMs())
      made.set(each.id, { promised: each.at, at, plannedAt: now })
      if (made.size % sliceMax === 0) await new Promise<void>((next) => clock.soon(next))
    }
    if (end > instants.until) return false
    if (plans.size + made.size > keptMax || plansUntil < now - plannedMs) plans = new Map()
    for (const [id, planned] of made) plans.set(id, planned)
    plansUntil = Math.max(plansUntil, end)
    return true
  }

  /** @param planWith - plans what is overdue; false where more of the subject would have to be known */
  async function placesFor(
    entries: readonly Pick<RestoredEntry, 'id' | 'at' | 'fired'>[],
    planWith: () => Promise<boolean>,
  ): Promise<ReadonlyMap<string, number> | undefined> {
    const held = entries.filter(({ fired }) => !fired)
    const places = new Map<string, number>()
    if (held.length === 0) return places
    const isOverdue = (now: number): boolean =>
      held.some((each) => each.at < now - overdueMs && plannedOf(each, now) === undefined)
    if (isOverdue(clock.now())) {
      const mine = last.then(() => !isOverdue(clock.now()) || planWith())
      // A failure is told to the one who asked.
      last = mine.catch(() => undefined)
      if (!(await mine)) return undefined
    }
    const now = clock.now()
    for (const each of plans.size === 0 ? [] : held) {
      const planned = plannedOf(each, now)
      if (planned !== undefined && planned.at > each.at) places.set(each.id, planned.at)
    }
    return places
  }

  return {
    async placesOf(subject, entries, near) {
      const planAll = async (): Promise<boolean> =>
        (await plan(subject, near())) || (await plan(subject, await read(subject)))
      return (await placesFor(entries, planAll))!
    },
    soonPlacesOf: (subject, entries, near) => placesFor(entries, () => plan(subject, near)),
  }
}
