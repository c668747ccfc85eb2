/**
 * An account's rate, exact in every rolling window: a ring of the instants at which it was last used. The N-th last
 * must lie a whole window back before the next may go (design: a token bucket of N per second lets 2N through).
 */
import type { Window } from '@sluice/limits'

export interface RollingRate {
  /**
   * The earliest instant ≥ now at which one more may go, when only a share of each window's places may be used and
   * of these a share is kept for others. At least one place is always there.
   */
  freeAt(now: number, share?: number, kept?: number): number
  /** Returns the instant noted. */
  take(now: number): number
  /** Takes back a `take` that led to nothing; where others followed it, its place is lost, which is safe. */
  undo(takenAt: number): void
  /** Counts what was taken at one instant at a later one; returns the instant noted. */
  move(takenAt: number, later: number): number
  /** How many went in the narrowest window ending now. */
  used(now: number): number
}

const initialCapacity = 64
/** Places beyond the largest N, so that what is undone still finds the instants that its `take` would have overwritten. */
const spare = 256

export function createRollingRate(windows: readonly Window[], marginMs: number): RollingRate {
  const largest = Math.max(0, ...windows.map((window) => window.max))
  const needed = largest + spare
  const narrowest = windows.reduce<Window | undefined>(
    (least, window) => (least === undefined || window.windowMs < least.windowMs ? window : least),
    undefined,
  )
  // Grows to the largest N only as it is used: 500 accounts with 50,000/h would be 200 MB if made at once.
  let ring = new Float64Array(Math.min(needed, initialCapacity))
  let count = 0

  const at = (back: number): number => ring[(count - back) % ring.length]!

  function grow(): void {
    const larger = new Float64Array(Math.min(needed, ring.length * 2))
    const kept = Math.min(count, ring.length)
    for (let back = kept; back >= 1; back -= 1) larger[(count - back) % larger.length] = at(back)
    ring = larger
  }

  return {
    freeAt(now, share = 1, kept = 0) {
      let free = now
      for (const window of windows) {
        if (window.max === 0) return Number.POSITIVE_INFINITY
        const max = share === 1 && kept === 0 ? window.max : placesOf(window.max, share, kept)
        if (count >= max) {
          const next = at(max) + window.windowMs + marginMs
          if (next > free) free = next
        }
      }
      return free
    },
    take(now) {
      if (largest === 0) return now
      if (count >= ring.length && ring.length < needed) grow()
      // A clock that steps back must not let the ring lose its order.
      const last = count === 0 ? now : at(1)
      const instant = Math.max(now, last)
      ring[count % ring.length] = instant
      count += 1
      return instant
    },
    undo(takenAt) {
      if (count > 0 && at(1) === takenAt) count -= 1
    },
    move(takenAt, later) {
      if (later <= takenAt) return takenAt
      for (let back = 1; back <= Math.min(count, ring.length); back += 1) {
        const instant = at(back)
        if (instant < takenAt) return takenAt
        if (instant > takenAt) continue
        // Those behind it that are not later than its new instant move one place to the front.
        let place = back
        for (; place > 1 && at(place - 1) <= later; place -= 1)
          ring[(count - place) % ring.length] = at(place - 1)
        ring[(count - place) % ring.length] = later
        return later
      }
      return takenAt
    },
    used(now) {
      if (narrowest === undefined) return 0
      let used = 0
      for (let back = 1; back <= Math.min(count, ring.length); back += 1) {
        if (at(back) <= now - narrowest.windowMs) break
        used += 1
      }
      return used
    },
  }
}

/** What is kept is a place at least, but never the last one. */
export function placesOf(max: number, share: number, kept: number): number {
  const usable = Math.max(1, Math.floor(max * share))
  if (kept === 0) return usable
  return Math.max(1, usable - Math.max(1, Math.floor(usable * kept)))
}
