/**
 * Round robin over many accounts without scanning all of them. Accounts that may be free are in a ring; accounts that
 * are free at a known instant are in a heap; accounts that only the end of a call can free are in neither until
 * `changed` is called. A turn tests the first of the ring; one that is not free leaves the ring, so each test either
 * gives a turn or is not repeated: the cost of a turn does not grow with the number of accounts.
 */
import { Heap } from '../../heap.ts'

export interface RoundRobinOptions<T> {
  readonly members: readonly T[]
  /** Returns the earliest instant ≥ now at which it is free; `undefined` when only a change can free it. */
  readonly freeAt: (member: T, now: number) => number | undefined
}

interface Place<T> {
  readonly member: T
  where: 'line' | 'heap' | 'nowhere'
  /** Key in the heap. Heap entries with another key are stale. */
  key: number
}

export class RoundRobin<T> {
  readonly #freeAt: RoundRobinOptions<T>['freeAt']
  readonly #places = new Map<T, Place<T>>()
  /** A ring buffer with one slot per member. */
  readonly #line: Place<T>[]
  #head = 0
  #length = 0
  #heap = new Heap<Place<T>>()

  constructor({ members, freeAt }: RoundRobinOptions<T>) {
    this.#freeAt = freeAt
    this.#line = new Array<Place<T>>(members.length)
    for (const member of members) {
      const place: Place<T> = { member, where: 'nowhere', key: 0 }
      this.#places.set(member, place)
      this.#join(place)
    }
  }

  /** Takes the next free member, which goes to the end of the ring. */
  next(now: number): T | undefined {
    const place = this.#first(now)
    if (place === undefined) return undefined
    this.#leave()
    this.#join(place)
    return place.member
  }

  /** Returns the first free member besides this one, without taking a turn. */
  other(now: number, member: T): T | undefined {
    this.#collect(now)
    for (let place = 0; place < this.#length; place += 1) {
      const { member: found } = this.#line[(this.#head + place) % this.#line.length]!
      if (found === member) continue
      const free = this.#freeAt(found, now)
      if (free !== undefined && free <= now) return found
    }
    return undefined
  }

  /** Gives the last turn back: if the member is still in the ring, it is next. */
  giveBack(member: T): void {
    const place = this.#places.get(member)!
    if (place.where !== 'line') return
    const { length } = this.#line
    let at = 0
    while (this.#line[(this.#head + at) % length] !== place) at += 1
    for (; at > 0; at -= 1)
      this.#line[(this.#head + at) % length] = this.#line[(this.#head + at - 1) % length]!
    this.#line[this.#head] = place
  }

  /** Returns the earliest instant at which a member is free; `undefined` when only a change can free one. */
  freeAt(now: number): number | undefined {
    if (this.#first(now) !== undefined) return now
    return this.#heap.leastKey
  }

  /** Called when the member may be free earlier than it was. */
  changed(member: T): void {
    const place = this.#places.get(member)!
    if (place.where !== 'line') this.#join(place)
  }

  /**
   * Called when a call has ended: a member in neither ring nor heap is tested again; one in the heap goes on waiting.
   */
  ended(member: T): void {
    const place = this.#places.get(member)!
    if (place.where === 'nowhere') this.#join(place)
  }

  /** Returns the first free member of the ring. */
  #first(now: number): Place<T> | undefined {
    this.#collect(now)
    while (this.#length > 0) {
      const place = this.#line[this.#head]!
      const free = this.#freeAt(place.member, now)
      if (free !== undefined && free <= now) return place
      this.#leave()
      if (free === undefined || free === Number.POSITIVE_INFINITY) place.where = 'nowhere'
      else {
        place.where = 'heap'
        place.key = free
        this.#heap.push(free, place)
      }
    }
    return undefined
  }

  /** Moves members whose instant has come from the heap to the ring. */
  #collect(now: number): void {
    for (;;) {
      const place = this.#heap.least
      if (place === undefined) return
      const key = this.#heap.leastKey!
      const isRemains = place.where !== 'heap' || place.key !== key
      if (!isRemains && key > now) return
      this.#heap.pop()
      if (!isRemains) this.#join(place)
    }
  }

  #join(place: Place<T>): void {
    this.#line[(this.#head + this.#length) % this.#line.length] = place
    this.#length += 1
    place.where = 'line'
  }

  #leave(): void {
    this.#head = (this.#head + 1) % this.#line.length
    this.#length -= 1
  }
}
