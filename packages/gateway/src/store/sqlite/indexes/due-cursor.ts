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
 * 5. Rows of a tenant for whom the asker has no room are passed over: from there up to the cursor the tenant *lags*,
 *    and until it has caught up the cursor passes over all of its rows. What it lags behind with is found by reading
 *    that stretch of the index once more. What is written into the stretch by rule 3 is noted, and not given out there.
 */
export interface Place {
  readonly dueAt: number
  readonly seq: number
}

/** A place whose tenant is known. */
export interface OwnedPlace extends Place {
  readonly tenant: string
}

/** What of a tenant was passed over lies behind `after`, up to `to`. */
export interface Lag {
  after: Place
  to: Place
  /** Rows in between that their writers keep. */
  readonly kept: Set<number>
}

export interface DueCursor {
  readonly cursor: Place
  readonly claimedUntil: number
  /** Whether the cursor will still come to this place. */
  isAhead(place: Place): boolean
  /** Moves the cursor; `last` is the last place given when there may be more. */
  advance(until: number, last?: Place): void
  putBack(place: OwnedPlace): void
  /** A move took it elsewhere: it is not given out from here any more. */
  drop(seq: number): void
  /** Takes out up to `max` of what was put back and is due by `until`, earliest first, but for these tenants. */
  takeBack(until: number, max: number, without: ReadonlySet<string>): readonly Place[]
  /** Tenants that lag, the one that was longest not served first. */
  readonly lags: ReadonlyMap<string, Lag>
  /** The cursor passes over this one. */
  passOver(place: OwnedPlace): void
  /** The tenant has been served up to this place; it lags no more where that is the end. */
  catchUp(tenant: string, place: Place): void
  /** Somebody keeps what was written there. */
  noteKept(place: OwnedPlace): void
  /** The earliest dueAt of what was put back. */
  earliestBack(): number | undefined
}

/** By instant, and then by acceptance. */
export const order = (a: Place, b: Place): number => a.dueAt - b.dueAt || a.seq - b.seq

export function createDueCursor(): DueCursor {
  let cursor: Place = { dueAt: Number.NEGATIVE_INFINITY, seq: 0 }
  let claimedUntil = Number.NEGATIVE_INFINITY
  const back = new Map<number, OwnedPlace>()
  const lags = new Map<string, Lag>()
  let sorted: OwnedPlace[] = []
  let stale = false

  function inOrder(): OwnedPlace[] {
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
      for (const lag of lags.values()) lag.kept.delete(seq)
    },
    takeBack(until, max, without) {
      const taken: OwnedPlace[] = []
      for (const place of inOrder()) {
        if (taken.length === max || place.dueAt > until) break
        if (!without.has(place.tenant)) taken.push(place)
      }
      for (const place of taken) back.delete(place.seq)
      if (taken.length > 0) stale = true
      return taken
    },
    earliestBack: () => inOrder()[0]?.dueAt,
    lags,
    passOver({ tenant, dueAt, seq }) {
      const lag = lags.get(tenant)
      if (lag !== undefined) lag.to = { dueAt, seq }
      else lags.set(tenant, { after: { dueAt, seq: seq - 1 }, to: { dueAt, seq }, kept: new Set() })
    },
    catchUp(tenant, place) {
      const lag = lags.get(tenant)
      if (lag === undefined) return
      lags.delete(tenant)
      lag.after = place
      // Behind the others from here on.
      if (order(place, lag.to) < 0) lags.set(tenant, lag)
    },
    noteKept(place) {
      const lag = lags.get(place.tenant)
      // Also behind its present end: the cursor may pass over more of the tenant.
      if (lag !== undefined && order(place, lag.after) > 0) lag.kept.add(place.seq)
    },
  }
}
