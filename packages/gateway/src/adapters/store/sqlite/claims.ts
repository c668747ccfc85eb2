/**
 * Who keeps what in memory. SQLite has one owner, so "held" is no column but a line through the index (dueAt, seq):
 * what stands up to the cursor has been given out, and is never read again until a move puts it behind the cursor.
 *
 * The rules, in the order in which they apply:
 * 1. `claimDue(until)` gives what was put back, then what stands after the cursor, and moves the cursor: to
 *    (until, ∞) when there was no more, else to the last one given.
 * 2. `claimedUntil` is the last instant that is given out *as a whole*: `until`, or one millisecond before the
 *    cursor while others with the cursor's own dueAt may follow. It never goes back, whatever the clock does.
 * 3. What `commit` writes with a dueAt up to `claimedUntil` is its writer's to keep. Anything later is found by the
 *    cursor, except an older row that is moved to exactly the cursor's dueAt and stands before it: that one is put
 *    back here by the writer of the row.
 * 4. A move that leaves dueAt as it was leaves the claim as it was.
 */
export interface Place {
  readonly dueAt: number
  readonly seq: number
}

export interface Claims {
  readonly cursor: Place
  readonly claimedUntil: number
  /** Whether the cursor will still come to this place. */
  isAhead(place: Place): boolean
  /** Moves the cursor; `last` is the last place given when there may be more. */
  advance(until: number, last?: Place): void
  putBack(place: Place): void
  /** A move took it elsewhere: it is not given out from here any more. */
  drop(seq: number): void
  /** Takes out up to `max` of what was put back and is due by `until`, earliest first. */
  takeBack(until: number, max: number): readonly Place[]
  /** The earliest dueAt of what was put back. */
  earliestBack(): number | undefined
}

/** By instant, and then by acceptance. */
export const order = (a: Place, b: Place): number => a.dueAt - b.dueAt || a.seq - b.seq

export function createClaims(): Claims {
  let cursor: Place = { dueAt: Number.NEGATIVE_INFINITY, seq: 0 }
  let claimedUntil = Number.NEGATIVE_INFINITY
  const back = new Map<number, Place>()
  let sorted: Place[] = []
  let stale = false

  function inOrder(): Place[] {
    if (stale) sorted = [...back.values()].sort(order)
    stale = false
    return sorted
  }

  return {
    get cursor() {
      return cursor
    },
    get claimedUntil() {
      return claimedUntil
    },
    isAhead: (place) => order(place, cursor) > 0,
    advance(until, last) {
      const next = last ?? { dueAt: until, seq: Number.MAX_SAFE_INTEGER }
      if (order(next, cursor) > 0) cursor = next
      claimedUntil = Math.max(claimedUntil, last === undefined ? until : last.dueAt - 1)
    },
    putBack(place) {
      back.set(place.seq, place)
      stale = true
    },
    drop(seq) {
      if (back.size > 0 && back.delete(seq)) stale = true
    },
    takeBack(until, max) {
      const places = inOrder()
      let count = 0
      while (count < places.length && count < max && places[count]!.dueAt <= until) count += 1
      const taken = places.slice(0, count)
      sorted = places.slice(count)
      for (const place of taken) back.delete(place.seq)
      return taken
    },
    earliestBack: () => inOrder()[0]?.dueAt,
  }
}
