/**
 * Everything that is known of one subject in memory, and what each question does to it. Nearly always nothing is
 * booked and nothing lies in the future: then a rule admits when its N-th last instant has left the window, and the
 * quick paths need no more than that. All else goes the general way, `weigh`. Time comes in as an argument.
 */
import { type Decision, nobody, Outcome, type Snapshot } from '../decision.ts'
import { leave } from '../forbidden.ts'
import type { Plan } from '../plan.ts'
import { type Kind, plainTerms, type RestoredEntry, type Terms } from '../store.ts'
import { Entry } from './entry.ts'
import { Stream } from './stream.ts'
import { weigh } from './weigh.ts'

/** Subjects with more streams than this (followers of many authors) find them through a map. */
const listedMax = 16
/** Ids are looked through for forgotten ones when there are this many, and then each time they have doubled. */
const idsMin = 64
/** An id that no rule counted is known this long. */
const unboundMs = 86_400_000

export class Subject {
  streams: Stream[] = []
  ids: Map<string, Entry> | undefined = undefined
  #byName: Map<string, Stream> | undefined = undefined
  #plan: Plan | undefined = undefined
  #slots: readonly Stream[] = []
  #idsMax = idsMin

  take(plan: Plan, id: string | undefined, terms: Terms, now: number): Decision {
    const slots = this.slots(plan)
    const { weight } = terms
    if ((id !== undefined && this.ids?.has(id)) || !admitsQuickly(plan, slots, weight, now)) {
      return weigh('take', this, plan, id, terms, now)
    }
    const snapshot = snapshotOf(slots)
    for (let index = 0; index < slots.length; index += 1) slots[index]!.append(now, weight)
    if (id !== undefined) this.remember(id, new Entry(now, weight, true, false, slots), now)
    return new Outcome(
      true,
      true,
      true,
      now,
      0,
      undefined,
      now,
      nobody,
      nobody,
      plan,
      weight,
      snapshot,
      undefined,
    )
  }

  reserve(plan: Plan, id: string, terms: Terms, now: number): Decision {
    const slots = this.slots(plan)
    const { weight, firm } = terms
    if (
      terms.notBefore > now ||
      this.ids?.has(id) ||
      (terms.forbidden.length > 0 && leave(terms.forbidden, now) !== now) ||
      !admitsQuickly(plan, slots, weight, now)
    ) {
      return weigh('reserve', this, plan, id, terms, now)
    }
    const snapshot = snapshotOf(slots)
    for (let index = 0; index < slots.length; index += 1) {
      if (firm) slots[index]!.append(now, weight)
      else slots[index]!.insertBooked(now, weight)
    }
    this.remember(id, new Entry(now, weight, firm, terms.priority === 'low', slots), now)
    const counted = firm ? weight : 0
    return new Outcome(
      true,
      true,
      firm,
      now,
      0,
      undefined,
      now,
      nobody,
      nobody,
      plan,
      counted,
      snapshot,
      undefined,
    )
  }

  fire(plan: Plan, id: string, terms: Terms, now: number): Decision {
    const own = this.ids?.get(id)
    const slots = this.slots(plan)
    if (own !== undefined) this.takeOut(own)
    if (
      own === undefined ||
      terms.notBefore > now ||
      (terms.forbidden.length > 0 && leave(terms.forbidden, now) !== now) ||
      !admitsQuickly(plan, slots, own.weight, now)
    ) {
      if (own !== undefined) this.putBack(own, now)
      return weigh('fire', this, plan, id, terms, now)
    }
    const { weight } = own
    const snapshot = snapshotOf(slots)
    for (let index = 0; index < slots.length; index += 1) slots[index]!.append(now, weight)
    own.at = now
    own.fired = true
    own.streams = slots
    return new Outcome(
      true,
      true,
      true,
      now,
      0,
      undefined,
      now,
      nobody,
      nobody,
      plan,
      weight,
      snapshot,
      undefined,
    )
  }

  decide(kind: Kind, plan: Plan, id: string | undefined, terms: Terms, now: number): Decision {
    return weigh(kind, this, plan, id, terms, now)
  }

  cancel(id: string): boolean {
    const entry = this.ids?.get(id)
    if (entry === undefined) return false
    this.takeOut(entry)
    this.forgetId(id)
    return true
  }

  restore(entries: readonly RestoredEntry[], now: number): void {
    for (const { id, at, fired, streams, weight = plainTerms.weight } of entries) {
      if (this.ids?.has(id)) continue
      const entry = new Entry(
        at,
        weight,
        fired,
        false,
        [...new Set(streams)].map((name) => this.#stream(name)),
      )
      this.putBack(entry, now)
      this.remember(id, entry, now)
    }
  }

  get isEmpty(): boolean {
    return (
      this.ids === undefined &&
      this.streams.every((stream) => stream.fired.length === 0 && stream.booked.length === 0)
    )
  }

  /** The streams of a plan, in its order; those that are new begin empty. */
  slots(plan: Plan): readonly Stream[] {
    if (plan === this.#plan) return this.#slots
    const slots =
      this.streams.length === 0 && plan.streams.length <= listedMax
        ? this.#adopt(plan)
        : plan.streams.map((name) => this.#stream(name))
    for (let index = 0; index < slots.length; index += 1) {
      const stream = slots[index]!
      for (const { maxWritten, windowMs } of plan.rulesByStream[index]!) stream.learn(maxWritten, windowMs)
    }
    // An array of limits that was made for one call must not be kept alive by the subject.
    if (plan.recurs) {
      this.#plan = plan
      this.#slots = slots
    }
    return slots
  }

  /** Takes an entry's instants out of its streams; the id stays. */
  takeOut(entry: Entry): void {
    const { streams, at, weight } = entry
    for (let index = 0; index < streams.length; index += 1) {
      if (entry.fired) streams[index]!.removeFired(at, weight)
      else streams[index]!.removeBooked(at, weight)
    }
  }

  /** Inserts an entry's instants in its streams. */
  putBack(entry: Entry, now: number): void {
    const { streams, at, weight } = entry
    for (let index = 0; index < streams.length; index += 1) {
      if (entry.fired) streams[index]!.insertFired(at, weight, now)
      else streams[index]!.insertBooked(at, weight)
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
   * are overdue by `overdueMs`. Answers whether nothing is left.
   */
  expire(now: number, retentionMs: number, overdueMs: number): boolean {
    let kept = 0
    for (const stream of this.streams) {
      stream.dropUntil(now - Math.max(retentionMs, stream.windowMsMax), now - overdueMs)
      if (stream.fired.length > 0 || stream.booked.length > 0) kept += 1
    }
    if (kept < this.streams.length) {
      this.streams = this.streams.filter((stream) => stream.fired.length > 0 || stream.booked.length > 0)
      this.#byName = undefined
      this.#plan = undefined
    }
    if (this.ids !== undefined) this.#forgetIds(now, overdueMs)
    return this.streams.length === 0 && this.ids === undefined
  }

  /** Ids whose instants no stream retains any more are unknown again. */
  #forgetIds(now: number, overdueMs: number): void {
    const ids = this.ids!
    for (const [id, { at, fired, streams }] of ids) {
      const bound = streams.length === 0 ? unboundMs : overdueMs
      const dropped =
        fired &&
        streams.length > 0 &&
        streams.every(({ fired: [first] }) => first === undefined || at < first)
      if (dropped || at <= now - bound) ids.delete(id)
    }
    this.#idsMax = Math.max(idsMin, 2 * ids.size)
    if (ids.size === 0) this.ids = undefined
  }

  /** The first plan of a subject gives it its streams: one array serves as list and as slots. */
  #adopt(plan: Plan): readonly Stream[] {
    this.streams = plan.streams.map((name) => new Stream(name))
    return this.streams
  }

  #stream(name: string): Stream {
    const { streams } = this
    const known =
      this.#byName === undefined ? streams.find((stream) => stream.name === name) : this.#byName.get(name)
    if (known !== undefined) return known
    const stream = new Stream(name)
    // A new list, because the old one may serve as the slots of a plan.
    this.streams = [...streams, stream]
    if (this.#byName !== undefined) this.#byName.set(name, stream)
    else if (this.streams.length > listedMax)
      this.#byName = new Map(this.streams.map((one) => [one.name, one]))
    return stream
  }
}

/** True when nothing is booked, nothing lies in the future and every rule admits; false when it takes a closer look. */
function admitsQuickly(plan: Plan, slots: readonly Stream[], weight: number, now: number): boolean {
  const { rulesByStream } = plan
  for (let index = 0; index < slots.length; index += 1) {
    const { fired, booked } = slots[index]!
    const { length } = fired
    if (booked.length !== 0) return false
    if (length !== 0 && fired[length - 1]! > now) return false
    const rules = rulesByStream[index]!
    for (let place = 0; place < rules.length; place += 1) {
      const { max, windowMs } = rules[place]!
      const places = max - weight + 1
      if (places < 1) return false
      if (length >= places && fired[length - places]! + windowMs > now) return false
    }
  }
  return true
}

/** Literals of a known length are the cheapest arrays that there are. */
function snapshotOf(slots: readonly Stream[]): Snapshot {
  const a = slots.length > 0 ? slots[0]!.fired : []
  if (slots.length <= 1) return [a, a.length]
  const b = slots[1]!.fired
  if (slots.length === 2) return [a, a.length, b, b.length]
  const c = slots[2]!.fired
  if (slots.length === 3) return [a, a.length, b, b.length, c, c.length]
  const d = slots[3]!.fired
  const snapshot = [a, a.length, b, b.length, c, c.length, d, d.length]
  for (let index = 4; index < slots.length; index += 1)
    snapshot.push(slots[index]!.fired, slots[index]!.fired.length)
  return snapshot
}
