/** Sorted arrays of timestamps, changed in place: nearly all inserts are at the end, nearly all removals at the front. */

/** Counts the entries ≤ t, which is the index of the first one > t. */
export function countUntil(log: readonly number[], t: number): number {
  let low = 0
  let high = log.length
  if (high === 0 || log[high - 1]! <= t) return high
  while (low < high) {
    const middle = (low + high) >>> 1
    if (log[middle]! <= t) low = middle + 1
    else high = middle
  }
  return low
}

export function insert(log: number[], t: number): void {
  const index = countUntil(log, t)
  if (index === log.length) log.push(t)
  else log.splice(index, 0, t)
}

/** Removes one entry; returns false where there is none. */
export function remove(log: number[], t: number): boolean {
  const index = countUntil(log, t) - 1
  if (index < 0 || log[index] !== t) return false
  if (index === log.length - 1) log.pop()
  else log.splice(index, 1)
  return true
}

/** Removes each of the sorted times once, as far as they are there. */
export function removeAll(log: number[], times: readonly number[]): void {
  let kept = 0
  let next = 0
  for (const t of log) {
    while (times[next]! < t) next += 1
    if (times[next] === t) next += 1
    else log[kept++] = t
  }
  log.length = kept
}

/** Drops entries ≤ t once there are enough of them to be worth moving the rest. */
export function forget(log: number[], t: number): void {
  const stale = countUntil(log, t)
  if (stale === log.length) log.length = 0
  else if (stale >= 64) log.splice(0, stale)
}
