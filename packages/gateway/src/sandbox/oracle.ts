/** Counts the calls in the fullest rolling window, literally: the figure that proves a limit kept or broken. */
export interface FullestWindow {
  readonly account: string
  readonly calls: number
  /** Calls in the fullest window. */
  readonly most: number
  /** Start of that window, epoch ms; null where there was no call. */
  readonly from: number | null
}

/** `instants` may be in any order; the window is half open, so two calls exactly `windowMs` apart are not in one. */
export function fullestWindow(account: string, instants: readonly number[], windowMs: number): FullestWindow {
  const sorted = [...instants].sort((a, b) => a - b)
  let most = 0
  let from: number | null = null
  let first = 0
  for (let last = 0; last < sorted.length; last += 1) {
    while (sorted[last]! - sorted[first]! >= windowMs) first += 1
    if (last - first + 1 > most) {
      most = last - first + 1
      from = sorted[first]!
    }
  }
  return { account, calls: sorted.length, most, from }
}
