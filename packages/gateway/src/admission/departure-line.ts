/**
 * The line of a category that is slowed: departures pass one by one at a rate that may change. Its clock counts the
 * departures that the rate has admitted: a notification that has to wait gets the next number, and passes when the clock
 * has reached it. So another rate moves the instants of all who wait and the order of none.
 *
 * Where several processes send, each has a line, and a part of the rate for the notifications that it numbers. Those that
 * waited in a pause have the same numbers in all lines, so they pass at the whole rate, whichever process sends them.
 */

/** Numbers that all lines together remember; some 150 bytes each. Those above wait behind the last one and ask again. */
export interface LineRoom {
  taken: number
  readonly max: number
}

interface Place {
  readonly number: number
  /** It was promised this instant, which is on record: it does not pass before. */
  readonly promisedAt: number
}

/** A notification that may pass keeps its place at least as long. */
const passedForMs = 60_000
/** Sums of small fractions: a departure is no billionth too early. */
const slack = 1e-9

export class DepartureLine {
  readonly #room: LineRoom
  /** The places of those who wait, and of those who may pass and have not left yet. */
  readonly #places = new Map<string, Place>()
  /** The departures that the rate has admitted so far. */
  #clock = 0
  #clockAt: number
  /** The number that was given last. */
  #last = 0
  /** The latest promised instant: nobody behind is promised an earlier one, also where the rate has grown. */
  #promisedAt = Number.NEGATIVE_INFINITY
  #perMs: number
  /** The rate is divided by this behind the numbers that are the same in all lines. */
  #parts = 1
  #common = 0
  /** The clock when notifications were forgotten last. */
  #passed = { number: 0, at: 0 }

  /** @param perMinute the rate of departures, above 0 */
  constructor(now: number, perMinute: number, room: LineRoom) {
    this.#clockAt = now
    this.#perMs = perMinute / 60_000
    this.#room = room
  }

  setRate(now: number, perMinute: number, parts = 1): void {
    this.#roll(now)
    this.#perMs = perMinute / 60_000
    this.#parts = parts
  }

  /** Declares the numbers that were given so far to be the same in the lines of all processes. */
  shareNumbers(): void {
    this.#common = this.#last
  }

  /** Forgets notifications that might have passed a minute ago and have not: another process has sent them. */
  forgetPassed(now: number): void {
    if (now < this.#passed.at + passedForMs) return
    this.#roll(now)
    for (const [id, { number, promisedAt }] of this.#places) {
      if (number > this.#passed.number) break
      if (promisedAt <= this.#passed.at) this.leave(id)
    }
    this.#passed = { number: this.#clock, at: now }
  }

  /** Lets a notification pass, or gives it a place. One that may pass keeps its place until it has left. */
  enter(id: string, now: number): boolean {
    this.#roll(now)
    if (!this.#places.has(id)) {
      const at = this.#nextAt()
      if (at > now && this.#room.taken >= this.#room.max) return false
      this.#take(id, at)
    }
    return this.#instantOf(this.#places.get(id)!) <= now
  }

  /** Gives a notification that waits on record the place behind all others. */
  add(id: string, promisedAt: number): void {
    if (!this.#places.has(id) && this.#room.taken < this.#room.max)
      this.#take(id, Math.max(promisedAt, this.#promisedAt))
  }

  /** Returns the instant until which a notification waits; undefined where it may pass now. */
  waitsUntil(id: string, now: number): number | undefined {
    this.#roll(now)
    const place = this.#places.get(id)
    const at = place === undefined ? this.#nextAt() : this.#instantOf(place)
    return at > now ? at : undefined
  }

  /** Forgets a notification that has left or ended. */
  leave(id: string): void {
    if (this.#places.delete(id)) this.#room.taken -= 1
  }

  /** Gives the room of all places back. */
  close(): void {
    this.#room.taken -= this.#places.size
    this.#places.clear()
  }

  #take(id: string, promisedAt: number): void {
    this.#last += 1
    this.#places.set(id, { number: this.#last, promisedAt })
    this.#promisedAt = Math.max(this.#promisedAt, promisedAt)
    this.#room.taken += 1
  }

  /** The instant at which the next newcomer may pass. */
  #nextAt(): number {
    // Where nobody waits, an instant that was promised to one who has left binds nobody.
    const promisedAt = this.#places.size === 0 ? Number.NEGATIVE_INFINITY : this.#promisedAt
    return this.#instantOf({ number: this.#last + 1, promisedAt })
  }

  #instantOf({ number, promisedAt }: Place): number {
    const ahead = Math.max(0, number - this.#clock - slack)
    const common = Math.min(ahead, this.#commonLeft())
    const waitMs = Math.ceil(common / this.#perMs + ((ahead - common) * this.#parts) / this.#perMs)
    return Math.max(this.#clockAt + waitMs, promisedAt)
  }

  #commonLeft(): number {
    return Math.max(0, this.#common - this.#clock)
  }

  #roll(now: number): void {
    if (now <= this.#clockAt) return
    const admitted = (now - this.#clockAt) * this.#perMs
    const common = Math.min(admitted, this.#commonLeft())
    // A line without anybody saves up one departure, so that no burst follows an idle hour.
    this.#clock = Math.min(this.#clock + common + (admitted - common) / this.#parts, this.#last + 1)
    this.#clockAt = now
  }
}
