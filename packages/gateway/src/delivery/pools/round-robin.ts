/**
 * Whose turn it is among many accounts, without looking at all of them. Those that may be free stand in a line; those
 * that are free at a known instant wait in a heap for it; those that only an ending call can free stand nowhere until
 * somebody says `changed`. A turn looks at the first of the line; whoever turns out not to be free leaves the line, so
 * each look either gives a turn or is not repeated: the cost of a turn does not grow with the number of accounts.
 */
import { Heap } from '../../heap.ts'

export interface RoundRobinOptions<T> {
  readonly members: readonly T[]
  /** The earliest instant ≥ now at which it is free; `undefined` when only a change can free it. */
  readonly freeAt: (member: T, now: number) => number | undefined
}

interface Place<T> {
  readonly member: T
  where: 'line' | 'heap' | 'nowhere'
  /** In the heap: what it waits for. Entries with another key are remains. */
  key: number
}

export class RoundRobin<T> {
  readonly #freeAt: RoundRobinOptions<T>['freeAt']
  readonly #places = new Map<T, Place<T>>()
  /** A ring as long as there are members, and one more. */
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

  /** The next that is free, which goes to the end of the line. */
  next(now: number): T | undefined {
    const place = this.#first(now)
    if (place === undefined) return undefined
    this.#leave()
    this.#join(place)
    return place.member
  }

  /** The first besides this one that is free. It has no turn by this: the line stays as it is. */
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

  /** Its last turn was none: where it still stands in the line, it is the next. */
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

  /** The earliest instant at which one is free; `undefined` when only a change can free one. */
  freeAt(now: number): number | undefined {
    if (this.#first(now) !== undefined) return now
    return this.#heap.leastKey
  }

  /** It may be free earlier than it was. */
  changed(member: T): void {
    const place = this.#places.get(member)!
    if (place.where !== 'line') this.#join(place)
  }

  /** A call has ended: what nothing else could free is looked at again; who waits for an instant goes on waiting. */
  ended(member: T): void {
    const place = this.#places.get(member)!
    if (place.where === 'nowhere') this.#join(place)
  }

  /** The first of the line that is free. */
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

  /** Those whose instant has come join the line. */
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
