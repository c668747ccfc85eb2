/** Sorted lists of instants, changed in place: nearly everything is put at the end and taken from the front. */

/** How many are ≤ t: the index of the first one > t. */
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

/** Takes one out. Answers whether there was one. */
export function remove(log: number[], t: number): boolean {
  const index = countUntil(log, t) - 1
  if (index < 0 || log[index] !== t) return false
  if (index === log.length - 1) log.pop()
  else log.splice(index, 1)
  return true
}

/** Forgets what is ≤ t once that is worth moving the rest. */
export function forget(log: number[], t: number): void {
  const stale = countUntil(log, t)
  if (stale === log.length) log.length = 0
  else if (stale >= 64) log.splice(0, stale)
}
