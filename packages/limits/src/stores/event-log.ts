/**
 * The event log of streams of one subject in memory: the instants that count, and those that are booked and have not
 * gone. Streams that have always been counted together share one event log, since their instants are the same; a subject
 * that only ever meets one set of rules has a single one. Instants of the same kind are interchangeable, so neither
 * list knows ids. Once a batch of more than some units came, both are kept in runs. `instants` is only ever appended to in place; any other change makes a new array, so that decisions
 * may keep the old one with its length as a snapshot.
 */
import { type AnyLog, countUntil, findFree, merge } from '../rolling-window.ts'
import { Runs } from '../runs.ts'
import { retainedMin, unclaimedMs, unitsMax } from '../store.ts'

/** A stretch that is full for a rule: it admits nowhere in [from, to). */
interface Full {
  readonly max: number
  readonly windowMs: number
  readonly weight: number
  from: number
  to: number
}

/** The state that most event logs never need: bookings, runs, and stretches that are full for a while. */
interface Ahead {
  /** Changed in place; nothing else refers to it. */
  booked: number[] | Runs
  /** The instants that count, where batches are kept in runs. */
  runs: Runs | undefined
  /** The instants that count and those that are booked in one list, made when first asked for and kept up from then on. */
  merged: number[] | Runs | undefined
  fulls: Full[]
}

const noneAhead = (): Ahead => ({ booked: [], runs: undefined, merged: undefined, fulls: [] })

/** An event log remembers full stretches for so many rules; the tenant's and the module's are two. */
const fullsMax = 4
const nothing: readonly number[] = /* @__PURE__ */ Object.freeze([])

export class EventLog {
  /** The instants that counted, while no batch is kept in runs. */
  instants: number[] = []
  #ahead: Ahead | undefined = undefined
  /** At least so many of the instants that counted are kept. */
  retained = retainedMin
  /** Names of its streams. */
  names: readonly string[]
  /** The longest window that was ever asked of it. */
  windowMsMax = 0

  constructor(names: readonly string[]) {
    this.names = names
  }

  /** The instants that counted. */
  get counted(): AnyLog {
    return this.#ahead?.runs ?? this.instants
  }

  get booked(): AnyLog {
    return this.#ahead === undefined ? nothing : this.#ahead.booked
  }

  get isEmpty(): boolean {
    return this.counted.length === 0 && this.booked.length === 0
  }

  /** True where something is booked, or kept in runs: the fast path knows only instants that counted. */
  get isAhead(): boolean {
    return this.#ahead !== undefined && (this.#ahead.booked.length !== 0 || this.#ahead.runs !== undefined)
  }

  /** The time that counted instants are kept, ms: those restored before any window was asked may all be needed. */
  keptMs(retentionMs: number): number {
    if (this.windowMsMax === 0) return Math.max(retentionMs, unclaimedMs)
    return Math.max(retentionMs, this.windowMsMax)
  }

  /** Splits off the streams of these names, into an event log with the same history. */
  splitOff(names: readonly string[]): EventLog {
    const twin = new EventLog(names)
    twin.instants = [...this.instants]
    const ahead = this.#ahead
    if (ahead !== undefined) {
      twin.#ahead = noneAhead()
      if (ahead.runs !== undefined) twin.#ahead.runs = Runs.of(ahead.runs)
      twin.#ahead.booked = copyOf(ahead.booked)
    }
    twin.retained = this.retained
    twin.windowMsMax = this.windowMsMax
    this.names = this.names.filter((name) => !names.includes(name))
    return twin
  }

  /** Everything in one list, as a new reservation meets it. Valid until the next change. */
  all(): AnyLog {
    const ahead = this.#ahead
    if (ahead === undefined || ahead.booked.length === 0) return this.counted
    ahead.merged ??= copyOf(merge(this.counted, ahead.booked))
    return ahead.merged
  }

  /**
   * The earliest instant ≥ from at which a rule admits, bookings respected. Behind 10,000 bookings the way to
   * the end is long; since insertions only fill a log further, what was found full is full until something is
   * taken out (bench/memory.ts on so many, best of a busy machine: 2 µs a reservation, 30 when each walked it).
   */
  freeFrom(max: number, windowMs: number, weight: number, from: number): number {
    const full = this.#ahead?.fulls.find(
      (one) => one.max === max && one.windowMs === windowMs && one.weight === weight,
    )
    const isWithin = full !== undefined && full.from <= from && from <= full.to
    const free = findFree(this.all(), max, windowMs, weight, isWithin ? full.to : from)
    if (isWithin) full.to = free
    else if (free > from && free < Number.POSITIVE_INFINITY)
      this.#learnFull(max, windowMs, weight, full, from, free)
    return free
  }

  #learnFull(
    max: number,
    windowMs: number,
    weight: number,
    known: Full | undefined,
    from: number,
    to: number,
  ): void {
    if (known !== undefined) {
      known.from = from
      known.to = to
      return
    }
    this.#ahead ??= noneAhead()
    if (this.#ahead.fulls.length >= fullsMax) this.#ahead.fulls = []
    this.#ahead.fulls.push({ max, windowMs, weight, from, to })
  }

  /** Learns from a rule how much must be kept. */
  learn(max: number, windowMs: number): void {
    if (2 * max > this.retained) this.retained = 2 * max
    if (windowMs > this.windowMsMax) this.windowMsMax = windowMs
  }

  /** `at` is not before anything that counts already; what counts by itself may lie in the future. Some units only. */
  appendFired(at: number, weight: number, now = at): void {
    for (let copy = 0; copy < weight; copy += 1) this.instants.push(at)
    const merged = this.#ahead?.merged
    if (merged !== undefined) insert(merged, at, weight)
    if (this.instants.length > 2 * this.retained) this.#trim(now)
  }

  insertFired(at: number, weight: number, now: number): void {
    const runs = weight > unitsMax ? this.#inRuns() : this.#ahead?.runs
    if (runs === undefined) {
      const { instants } = this
      if (instants.length === 0 || instants[instants.length - 1]! <= at) {
        this.appendFired(at, weight, now)
        return
      }
      this.instants = [...instants]
    }
    insert(runs ?? this.instants, at, weight)
    const merged = this.#ahead?.merged
    if (merged !== undefined) insert(merged, at, weight)
    if (this.counted.length > 2 * this.retained) this.#trim(now)
  }

  removeFired(at: number, weight: number): void {
    const runs = this.#ahead?.runs
    if (runs === undefined) this.instants = [...this.instants]
    this.#loosen(at, remove(runs ?? this.instants, at, weight))
    this.#tidy()
  }

  insertBooked(at: number, weight: number): void {
    if (weight > unitsMax) this.#inRuns()
    this.#ahead ??= noneAhead()
    const { booked, merged } = this.#ahead
    insert(booked, at, weight)
    if (merged !== undefined) insert(merged, at, weight)
  }

  removeBooked(at: number, weight: number): void {
    const ahead = this.#ahead
    if (ahead === undefined) return
    this.#loosen(at, remove(ahead.booked, at, weight))
    if (ahead.booked.length === 0) ahead.merged = undefined
    this.#tidy()
  }

  /** Drops what counted, and bookings that nobody came for, at or before these instants. */
  dropUntil(firedUntil: number, bookedUntil: number): void {
    const gone = countUntil(this.counted, firedUntil)
    this.#dropFired(gone)
    const stale = countUntil(this.booked, bookedUntil)
    if (stale > 0) dropFirst(this.#ahead!.booked, stale)
    if (gone > 0 || stale > 0) this.#relearn()
    this.#tidy()
  }

  /**
   * Keeps the newest of the past and all of the future. Waits until half can go, so that it costs O(1) a call; and
   * for the first rule, because what is restored before any rule is known may all be needed.
   */
  #trim(now: number): void {
    if (this.windowMsMax === 0) return
    const surplus = countUntil(this.counted, now) - this.retained
    if (surplus < this.retained) return
    this.#dropFired(surplus)
    this.#relearn()
  }

  #dropFired(count: number): void {
    if (count === 0) return
    const runs = this.#ahead?.runs
    if (runs === undefined) this.instants = this.instants.slice(count)
    else runs.dropFirst(count)
  }

  /** From here on both lists are in runs. */
  #inRuns(): Runs {
    this.#ahead ??= noneAhead()
    const ahead = this.#ahead
    if (ahead.runs === undefined) {
      ahead.runs = Runs.of(this.instants)
      ahead.booked = Runs.of(ahead.booked)
      ahead.merged = undefined
      this.instants = []
    }
    return ahead.runs
  }

  /** Makes the log a list again when nothing is left in runs. */
  #tidy(): void {
    const ahead = this.#ahead
    if (ahead?.runs === undefined || ahead.runs.length > 0 || ahead.booked.length > 0) return
    this.#ahead = undefined
  }

  /** Something was taken out: what was full need not be any more. */
  #loosen(at: number, count: number): void {
    const ahead = this.#ahead
    if (ahead === undefined) return
    if (ahead.fulls.length > 0) ahead.fulls = []
    if (ahead.merged !== undefined) remove(ahead.merged, at, count)
  }

  #relearn(): void {
    if (this.#ahead === undefined) return
    this.#ahead.merged = undefined
    this.#ahead.fulls = []
  }
}

function copyOf(log: AnyLog): number[] | Runs {
  return log instanceof Runs ? Runs.of(log) : [...log]
}

function insert(log: number[] | Runs, at: number, weight: number): void {
  if (log instanceof Runs) {
    log.insert(at, weight)
    return
  }
  const index = countUntil(log, at)
  for (let copy = 0; copy < weight; copy += 1) {
    if (index === log.length) log.push(at)
    else log.splice(index, 0, at)
  }
}

/** Takes out at most so many of this instant; answers how many there were. */
function remove(log: number[] | Runs, at: number, weight: number): number {
  if (log instanceof Runs) return log.remove(at, weight)
  const last = log.length - 1
  if (weight === 1 && last >= 0 && log[last] === at) {
    log.pop()
    return 1
  }
  const first = countUntil(log, at - 1)
  const count = Math.min(weight, countUntil(log, at) - first)
  if (count > 0) log.splice(first, count)
  return count
}

function dropFirst(log: number[] | Runs, count: number): void {
  if (log instanceof Runs) log.dropFirst(count)
  else log.splice(0, count)
}
