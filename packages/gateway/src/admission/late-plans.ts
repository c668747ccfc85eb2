/**
 * Plans what becomes late while a gateway runs: a pool was blocked, an account out, a provider slow. What is late does not
 * fit all at once, and what is refused would take its next place beside what has left alone, in the way of those that wait
 * with earlier promises. So at the first refusal of a subject each of those that wait there gets the earliest instant that
 * its limits admit behind those that were promised earlier, as at a start (overdue.ts). The facts are those of the limiter's
 * state; where several processes share it, the one that meets the refusal plans for all.
 */
import type { RestoredEntry } from '@sluice/limits'
import type { Notification } from '../model.ts'
import type { Policy } from '../policy/policy.ts'
import type { HeldMove, KnownEntries, LateSubject, PlanLate, SubjectEntries } from '../ports/limiter.ts'
import type { Clock, Store, Subject } from '../ports.ts'
import type { Ledger, Recipients } from '../stages.ts'
import type { ForbiddenHours } from './quiet-hours.ts'
import { findOrNobody } from './recipient-cache.ts'
import { createHeldInstants, createSlotPlan, type HeldInstant, inOrder, streamsOf } from './slot-plan.ts'

export interface LatePlansOptions {
  readonly store: Pick<Store, 'notification'>
  readonly ledger: Pick<Ledger, 'live'>
  readonly policy: Pick<Policy, 'rulesFor' | 'longestWindowMs' | 'version'>
  readonly recipients: Pick<Recipients, 'find'>
  readonly forbiddenHours: Pick<ForbiddenHours, 'forbidden' | 'hasHours' | 'heldUntil'>
  /** `now` measures the work: `monotonic` gains an hour where the wall clock is set on by one, and the rest is a multiple. */
  readonly clock: Pick<Clock, 'now'>
  /** Every window is kept so much longer than it is written, ms. */
  readonly marginMs: number
  /** Reports subjects in which notifications have other instants, paused. The callee resumes them. */
  readonly onMoved: (subjects: readonly Subject[]) => void
  readonly onError: (what: string, error: unknown) => void
  /**
   * Notifications of one plan, those of the earliest promises: some 10 ms of the event loop in one piece.
   *
   * @defaultValue 500
   */
  readonly plannedMax?: number
}

/** Subjects of one plan: each that is not in memory is read. `fire` asks the limits of the others. */
const subjectsMax = 100
/** Notifications that are read at once. */
const readMax = 64
/** A subject is not planned again before this many times the duration of its last plan: 5 % of the time at most. */
const restFactor = 19
/** Subjects whose next plan is bound; beyond that all may be planned at once. */
const boundMax = 10_000
/** Limits keep windows longer than they are written by their margin, which is below this, ms. */
const slackMs = 60_000

interface Waiting extends HeldInstant {
  /** It may not leave before this instant, because an operator holds it, epoch ms. */
  readonly notBefore: number
}

/** A notification that holds instants in the subjects that are planned. */
interface Held {
  readonly id: string
  /** Absent where it keeps what it holds. */
  readonly one: Waiting | undefined
  /** The instant by which it is planned: its promise. */
  at: number
  /** The instant that it holds; none where its last call counts, or it was refused. */
  holds: number | undefined
  readonly fixed: [key: string, entry: RestoredEntry][]
}

/** The facts of a plan: the subjects, and the notifications that hold instants in them. */
interface Facts {
  readonly subjects: Map<string, Subject>
  /** Undefined where an id waits for nothing any more, or is not on record yet: it keeps its instant. */
  readonly waiting: Map<string, Waiting | undefined>
}

/** The standing of the planned subjects. */
interface Standing {
  /** The entries that count, by subject. */
  readonly counted: ReadonlyMap<string, readonly RestoredEntry[]>
  /** The notifications that hold instants, in the order in which they are planned. */
  readonly held: readonly Held[]
}

export function createLatePlans(options: LatePlansOptions): PlanLate {
  const { store, ledger, policy, recipients, forbiddenHours, clock, marginMs, onMoved, onError } = options
  const { plannedMax = 500 } = options
  const heldInstantOf = createHeldInstants(forbiddenHours)
  /** The instants of `clock.now` before which subjects are not planned again, by their keys. */
  const notAgainUntil = new Map<string, number>()

  async function waitingOf({ tenant }: Subject, id: string): Promise<Waiting | undefined> {
    const notification = ledger.live(id)?.notification ?? (await store.notification(tenant, id))
    if (notification === undefined || !waits(notification)) return undefined
    const recipient = await findOrNobody(recipients, tenant, notification.to.id)
    const all = policy.rulesFor(notification, recipient)
    const notBefore = forbiddenHours.heldUntil(notification) ?? Number.NEGATIVE_INFINITY
    return { ...heldInstantOf(notification, all, recipient), notBefore }
  }

  /** The right to send alone does not count, also that of another process: limits come after it. */
  function waits({ id, status, undecided }: Notification): boolean {
    const live = ledger.live(id)
    const last = live?.events.at(-1)?.status ?? status
    const isBegun = live === undefined && last === 'sending'
    return undecided !== true && (last === 'queued' || last === 'scheduled' || isBegun)
  }

  /** Reads the notifications of the subjects that share some with this one, those of the earliest instants first. */
  async function gather({ subject, refused }: LateSubject, entries: SubjectEntries): Promise<Facts> {
    const facts: Facts = { subjects: new Map([[subject.key, subject]]), waiting: new Map() }
    const { subjects, waiting } = facts
    for (const each of subjects.values()) {
      const held = (await entries.read(each)).filter((entry) => mayWait(entry, refused))
      // The instant that a refused one holds is no promise: it is planned in any case.
      const ids = inOrder(held.map(({ id, at }) => ({ id, at: refused.has(id) ? 0 : at })))
        .map(({ id }) => id)
        .filter((id) => !waiting.has(id))
        .slice(0, plannedMax - waiting.size)
      for (let from = 0; from < ids.length; from += readMax) {
        const some = ids.slice(from, from + readMax)
        const found = await Promise.all(some.map((id) => waitingOf(each, id)))
        for (const [index, one] of found.entries()) {
          waiting.set(some[index]!, one)
          for (const { subject: other } of one?.limits ?? [])
            if (subjects.size < subjectsMax && !subjects.has(other.key)) subjects.set(other.key, other)
        }
      }
    }
    return facts
  }

  /** A retry waits although its last call counts; it holds no instant. */
  function mayWait({ id, at, fired }: RestoredEntry, refused: ReadonlySet<string>): boolean {
    return !fired || refused.has(id) || ledger.live(id)?.notification.firedAt === at
  }

  /** Finds what counts in each subject, and what each notification holds in them. */
  function standingOf(
    { subjects, waiting }: Facts,
    { refused, kept }: LateSubject,
    known: KnownEntries,
    now: number,
  ): Standing {
    const counted = new Map<string, readonly RestoredEntry[]>()
    const held = new Map<string, Held>()
    // Another process fires one subject after the other: what counts in one of them has left, or leaves now.
    const leaving = new Set<string>()
    for (const entries of known.values())
      for (const entry of entries) if (!mayWait(entry, refused)) leaving.add(entry.id)
    for (const key of subjects.keys()) {
      const entries = known.get(key)
      if (entries === undefined) continue
      const stay: RestoredEntry[] = []
      for (const entry of entries) {
        const { id, at, fired } = entry
        const isKept = kept?.has(id) === true
        const one = leaving.has(id) || isKept ? undefined : waiting.get(id)
        const counts = fired && one === undefined
        if (counts) stay.push(entry)
        // One that was not read was promised a later instant than these: it makes room for them.
        if (counts || !(waiting.has(id) || isKept)) continue
        const isPromise = !fired && !refused.has(id) && !isKept
        const own: Held = held.get(id) ?? {
          id,
          one,
          at: isPromise ? at : (one?.at ?? now),
          holds: undefined,
          fixed: [],
        }
        if (isPromise && one !== undefined) own.at = at > now ? at : Math.min(at, one.at)
        if (isPromise) own.holds = at
        if (one === undefined) own.fixed.push([key, entry])
        held.set(id, own)
      }
      counted.set(key, stay)
    }
    return { counted, held: inOrder([...held.values()]) }
  }

  /** Finds the instants, in one step: nothing changes meanwhile. */
  function movesOf(facts: Facts, late: LateSubject, known: KnownEntries): HeldMove[] {
    const { refused, kept } = late
    const now = clock.now()
    const { counted, held } = standingOf(facts, late, known, now)
    const slots = createSlotPlan({ now, marginMs, subjects: counted })
    const moves: HeldMove[] = []
    /** From here on nothing meets one that leaves later than it was promised. */
    let end = now
    const meet = (at: number): void => {
      end = Math.max(end, at + policy.longestWindowMs + slackMs)
    }
    for (const { id, one, at: promised, holds, fixed } of held) {
      if (promised > end) break
      if (one === undefined) {
        for (const [key, entry] of fixed) {
          slots.hold(key, entry)
          if (kept?.has(id) === true) meet(entry.at)
        }
        continue
      }
      const at = slots.place(one, Math.max(now, promised, one.notBefore))
      if (at > promised) meet(at)
      if (holds === at || (at <= now && holds === undefined && !refused.has(id))) continue
      const own = one.limits.filter(({ subject: { key } }) => counted.has(key))
      moves.push({
        id,
        at,
        subjects: own.map(({ subject, rules }) => ({ subject, streams: streamsOf(rules) })),
      })
    }
    return moves
  }

  return async (late, entries) => {
    const { key } = late.subject
    const { version } = policy
    const begun = clock.now()
    if (begun < (notAgainUntil.get(key) ?? begun)) return
    try {
      const facts = await gather(late, entries)
      const peeked = entries.peek(facts.subjects.values())
      const known = peeked instanceof Promise ? await peeked : peeked
      // Rules that came meanwhile fill the subjects anew: they are planned when they are late under these.
      const moves = policy.version === version ? movesOf(facts, late, known) : []
      if (moves.length > 0) {
        const paused = entries.move(moves)
        onMoved(paused instanceof Promise ? await paused : paused)
      }
    } catch (error) {
      onError('plan what is late', error)
    }
    const now = clock.now()
    notAgainUntil.delete(key)
    if (notAgainUntil.size >= boundMax) notAgainUntil.clear()
    if (now > begun) notAgainUntil.set(key, now + restFactor * (now - begun))
  }
}
