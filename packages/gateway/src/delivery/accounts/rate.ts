/**
 * An account's rate limit, exact in every rolling window: a ring buffer of the instants of its last calls. The N-th
 * last must be a whole window old before the next call (a token bucket of N per second would let 2N through). Windows
 * with very many places are counted in slices (sliced-rate.ts).
 */
import type { Window } from '@sluice/limits'
import type { WindowUse } from '../../stages.ts'
import { isWide, SlicedRate } from './sliced-rate.ts'

export interface RollingRate {
  /**
   * Returns the earliest instant ≥ now at which one more call may go, when only a share of each window's places may
   * be used and of these a share is kept for others. At least one place is always available.
   */
  freeAt(now: number, share?: number, kept?: number): number
  /** Counts a call; returns the instant noted. */
  take(now: number): number
  /** Takes back a `take` without a call. If later calls followed, its place is lost, which is safe. */
  undo(takenAt: number): void
  /** Moves a counted call to a later instant; returns the instant noted. */
  move(takenAt: number, later: number): number
  /** Counts the calls in the narrowest window ending now. */
  used(now: number): number
  /** Returns the use of each window, in the order given. */
  uses(now: number): readonly WindowUse[]
}

const initialCapacity = 64
/** Places beyond the largest N, so that `undo` still finds the instants that its `take` would have overwritten. */
const spare = 256

export function createRollingRate(windows: readonly Window[], marginMs: number): RollingRate {
  const exact = windows.filter((window) => !isWide(window))
  const wide = windows.filter(isWide).map((window) => new SlicedRate(window, marginMs))
  const largest = Math.max(0, ...exact.map((window) => window.max))
  const needed = largest + spare
  const narrowest = windows.reduce<Window | undefined>(
    (least, window) => (least === undefined || window.windowMs < least.windowMs ? window : least),
    undefined,
  )
  // Grows to the largest N only with use.
  let ring = new Float64Array(Math.min(needed, initialCapacity))
  let count = 0
  let last = Number.NEGATIVE_INFINITY

  const at = (back: number): number => ring[(count - back) % ring.length]!

  function grow(): void {
    const larger = new Float64Array(Math.min(needed, ring.length * 2))
    const kept = Math.min(count, ring.length)
    for (let back = kept; back >= 1; back -= 1) larger[(count - back) % larger.length] = at(back)
    ring = larger
  }

  function append(instant: number): void {
    if (count >= ring.length && ring.length < needed) grow()
    ring[count % ring.length] = instant
    count += 1
  }

  /** Counts the instants in the window ending now: the ring is sorted, and its end is searched by halves. */
  function usedIn({ windowMs }: Window, now: number): number {
    let used = 0
    let outside = Math.min(count, ring.length) + 1
    while (outside - used > 1) {
      const middle = (used + outside) >> 1
      if (at(middle) > now - windowMs) used = middle
      else outside = middle
    }
    return used
  }

  /** Moves a noted instant to a later one, keeping the ring sorted. */
  function shift(takenAt: number, later: number): void {
    const held = Math.min(count, ring.length)
    let place = 1
    while (place <= held && at(place) > takenAt) place += 1
    // The ring has already overwritten it: it enters again, in place of an older one.
    if (place > held || at(place) < takenAt) {
      append(later)
      for (place = 1; place < Math.min(count, ring.length) && at(place + 1) > later; place += 1)
        ring[(count - place) % ring.length] = at(place + 1)
    } else {
      // Later entries up to its new instant move one place to the front.
      for (; place > 1 && at(place - 1) <= later; place -= 1)
        ring[(count - place) % ring.length] = at(place - 1)
    }
    ring[(count - place) % ring.length] = later
  }

  return {
    freeAt(now, share = 1, kept = 0) {
      let free = now
      for (const sliced of wide)
        free = Math.max(free, sliced.freeAt(now, placesOf(sliced.window.max, share, kept)))
      for (const window of exact) {
        if (window.max === 0) return Number.POSITIVE_INFINITY
        const max = placesOf(window.max, share, kept)
        if (count >= max) {
          const next = at(max) + window.windowMs + marginMs
          if (next > free) free = next
        }
      }
      return free
    },
    take(now) {
      // A clock that steps back must not unsort the ring.
      const instant = Math.max(now, last, count === 0 ? now : at(1))
      last = instant
      for (const sliced of wide) sliced.add(instant)
      if (largest > 0) append(instant)
      return instant
    },
    undo(takenAt) {
      for (const sliced of wide) sliced.remove(takenAt)
      if (count > 0 && at(1) === takenAt) count -= 1
    },
    move(takenAt, later) {
      if (later <= takenAt) return takenAt
      for (const sliced of wide) {
        sliced.remove(takenAt)
        sliced.add(later)
      }
      if (largest > 0) shift(takenAt, later)
      return later
    },
    uses(now) {
      return windows.map((window): WindowUse => {
        const { text, max } = window
        const sliced = wide.find((each) => each.window === window)
        const freesAt =
          max === 0
            ? null
            : sliced !== undefined
              ? sliced.freeAt(now, max)
              : count < max
                ? now
                : at(max) + window.windowMs + marginMs
        const used = sliced?.used(now) ?? usedIn(window, now)
        const freesLater = freesAt === null || freesAt <= now ? null : freesAt
        return { window: text, marginMs, used, max, freesAt: freesLater }
      })
    },
    used(now) {
      if (narrowest === undefined) return 0
      for (const sliced of wide) if (sliced.window === narrowest) return sliced.used(now)
      return usedIn(narrowest, now)
    },
  }
}

/** Processes that share an account keep places for critical notifications so long after the pool kept some last, ms. */
export const keptForCriticalMs = 10_000

/** Computes usable places. At least one place is kept, but never the last one. */
export function placesOf(max: number, share: number, kept: number): number {
  if (share === 1 && kept === 0) return max
  const usable = Math.max(1, Math.floor(max * share))
  if (kept === 0) return usable
  return Math.max(1, usable - Math.max(1, Math.floor(usable * kept)))
}

/** Returns the index of the shortest window; -1 where there is none. */
export function narrowestOf(windows: readonly Window[]): number {
  const lengths = windows.map(({ windowMs }) => windowMs)
  return lengths.indexOf(Math.min(...lengths))
}
