/**
 * The due cursor: tracks in memory which due rows have been given out. SQLite has one owner, so "held" is no column
 * but a line through the index (dueAt, seq): rows up to the cursor have been given out, and are never read again
 * until a move puts them behind the cursor.
 *
 * The rules, in the order in which they apply:
 * 1. `claimDue(until)` gives the rows that were put back, then the rows after the cursor, and moves the cursor: to
 *    (until, ∞) when there were no more, else to the last one given.
 * 2. `claimedUntil` is the last instant that is given out *as a whole*: `until`, or one millisecond before the cursor
 *    while others with the cursor's own dueAt may follow. It never goes back, whatever the clock does.
 * 3. A row that `commit` writes with a dueAt up to `claimedUntil` is held by its writer. The cursor finds any later
 *    row, except an older row that is moved to exactly the cursor's dueAt and stands before it: the writer of that
 *    row puts it back here.
 * 4. A move that does not change dueAt leaves the claim unchanged.
 * 5. Rows of a tenant in `without` are passed over: from there up to the cursor the tenant *lags*, and until it has
 *    caught up the cursor passes over all of its rows. The lagging rows are found by reading that stretch of the
 *    index once more. Rows written into the stretch by rule 3 are noted, and not given out there.
 */
export interface Place {
  readonly dueAt: number
  readonly seq: number
}

/** A place whose tenant is known. */
export interface OwnedPlace extends Place {
  readonly tenant: string
}

/** A tenant's passed-over rows: they lie after `after`, up to `to`. */
interface Lag {
  after: Place
  to: Place
  /** Rows of the stretch that their writers hold. */
  readonly kept: Set<number>
}

export interface DueCursor {
  readonly cursor: Place
  readonly claimedUntil: number
  /** True if the cursor has still to reach this place. */
  isAhead(place: Place): boolean
  /** Moves the cursor; `last` is the last place given when there may be more. */
  advance(until: number, last?: Place): void
  putBack(place: OwnedPlace): void
  /** Removes a put-back row that a move took elsewhere. */
  drop(seq: number): void
  /**
   * Takes up to `max` put-back rows that are due by `until`, earliest first, except those of the tenants in
   * `without`.
   */
  takeBack(until: number, max: number, without: ReadonlySet<string>): readonly Place[]
  /** Lagging tenants, the one that was served longest ago first. */
  readonly lags: ReadonlyMap<string, Lag>
  /** Records that the cursor passes over this row. */
  passOver(place: OwnedPlace): void
  /** Records that the tenant has been served up to this place; at the end of its stretch it lags no more. */
  catchUp(tenant: string, place: Place): void
  /** Records that the writer of this row holds it. */
  noteKept(place: OwnedPlace): void
  /** The earliest dueAt of the put-back rows. */
  earliestBack(): number | undefined
}

/** Compares places by instant, then by acceptance. */
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
      // Reinserting moves the tenant behind the others.
      if (order(place, lag.to) < 0) lags.set(tenant, lag)
    },
    noteKept(place) {
      const lag = lags.get(place.tenant)
      // Also rows after the stretch's present end: the cursor may pass over more of the tenant.
      if (lag !== undefined && order(place, lag.after) > 0) lag.kept.add(place.seq)
    },
  }
}
