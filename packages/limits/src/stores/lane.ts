/**
 * A lane of one subject in memory: the instants that count, and those that are booked and have not gone. Streams
 * that have always been counted together share one lane, since their instants are the same; where one set of rules
 * is all that a subject ever meets, that is a single lane. Instants of the same kind are interchangeable, so neither
 * list knows ids. `fired` is only ever appended to in place; any other change makes a new array, so that decisions
 * may keep the old one with its length as a snapshot.
 */
import { countBefore, countUntil, type Log, merge } from '../rolling-window.ts'
import { retainedMin } from '../store.ts'

const empty: number[] = []

export class Lane {
  /** Names of its streams. */
  names: readonly string[]
  fired: number[] = empty
  /** Changed in place; nobody keeps it. */
  booked: number[] = empty
  /** How many of what counted are kept at least. */
  retained = retainedMin
  /** The longest window that was ever asked of it. */
  windowMsMax = 0

  constructor(names: readonly string[]) {
    this.names = names
  }

  /** The streams of these names go their own way from here on, in a lane with the same history. */
  split(names: readonly string[]): Lane {
    const twin = new Lane(names)
    twin.fired = [...this.fired]
    twin.booked = [...this.booked]
    twin.retained = this.retained
    twin.windowMsMax = this.windowMsMax
    this.names = this.names.filter((name) => !names.includes(name))
    return twin
  }

  get isEmpty(): boolean {
    return this.fired.length === 0 && this.booked.length === 0
  }

  /** Everything in one list, as a new reservation meets it. */
  all(): Log {
    return merge(this.fired, this.booked)
  }

  /** Learns from a rule how much must be kept. */
  learn(max: number, windowMs: number): void {
    if (2 * max > this.retained) this.retained = 2 * max
    if (windowMs > this.windowMsMax) this.windowMsMax = windowMs
  }

  /** `at` is not before anything that counts already. */
  append(at: number, weight: number): void {
    // An array of one element is the smallest that V8 makes; many subjects never hold a second.
    if (this.fired === empty) this.fired = [at]
    else this.fired.push(at)
    for (let more = weight; more > 1; more -= 1) this.fired.push(at)
    if (this.fired.length > 2 * this.retained) this.#trim(at)
  }

  insertFired(at: number, weight: number, now: number): void {
    const { fired } = this
    if (fired.length === 0 || fired[fired.length - 1]! <= at) {
      this.append(at, weight)
      return
    }
    this.fired = inserted(fired, at, weight)
    if (fired.length > 2 * this.retained) this.#trim(now)
  }

  removeFired(at: number, weight: number): void {
    const first = countBefore(this.fired, at)
    const last = Math.min(first + weight, countUntil(this.fired, at))
    if (first < last) this.fired = this.fired.toSpliced(first, last - first)
  }

  insertBooked(at: number, weight: number): void {
    const { booked } = this
    if (booked === empty) this.booked = Array.from({ length: weight }, () => at)
    else if (booked.length === 0 || booked[booked.length - 1]! <= at)
      for (let n = 0; n < weight; n += 1) booked.push(at)
    else this.booked = inserted(booked, at, weight)
  }

  removeBooked(at: number, weight: number): void {
    const { booked } = this
    const last = booked.length - 1
    if (weight === 1 && last >= 0 && booked[last] === at) {
      booked.pop()
      return
    }
    const first = countBefore(booked, at)
    const end = Math.min(first + weight, countUntil(booked, at))
    if (first < end) booked.splice(first, end - first)
  }

  /** Drops what counted, and bookings that nobody came for, at or before these instants. */
  dropUntil(firedUntil: number, bookedUntil: number): void {
    const gone = countUntil(this.fired, firedUntil)
    if (gone > 0) this.fired = this.fired.slice(gone)
    const stale = countUntil(this.booked, bookedUntil)
    if (stale > 0) this.booked = this.booked.slice(stale)
  }

  /**
   * Keeps the newest of the past and all of the future. Waits until half can go, so that it costs O(1) a call; and
   * for the first rule, because what is restored before any rule is known may all be needed.
   */
  #trim(now: number): void {
    if (this.windowMsMax === 0) return
    const surplus = countUntil(this.fired, now) - this.retained
    if (surplus >= this.retained) this.fired = this.fired.slice(surplus)
  }
}

function inserted(log: readonly number[], at: number, weight: number): number[] {
  const index = countUntil(log, at)
  const copies = Array.from({ length: weight }, () => at)
  return [...log.slice(0, index), ...copies, ...log.slice(index)]
}
