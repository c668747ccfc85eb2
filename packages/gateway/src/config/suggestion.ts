/** Suggests the known word that was probably meant: the nearest one, if any is near. Pure. */

/**
 * Counts the letters to insert, delete, change or swap with their neighbour to turn one word into the other.
 */
export function distance(a: string, b: string): number {
  let before: number[] = []
  let previous = Array.from({ length: b.length + 1 }, (_, index) => index)
  for (let i = 1; i <= a.length; i += 1) {
    const row = [i]
    for (let j = 1; j <= b.length; j += 1) {
      const cost = a[i - 1] === b[j - 1] ? 0 : 1
      let least = Math.min(previous[j]! + 1, row[j - 1]! + 1, previous[j - 1]! + cost)
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]
      if (swapped) least = Math.min(least, before[j - 2]! + 1)
      row.push(least)
    }
    before = previous
    previous = row
  }
  return previous[b.length]!
}

/** Letters of a word that is compared at most: more than any word that is ever suggested. */
const wordMax = 64

/**
 * Finds the nearest of the known words, at most `reach` letters away: by default a third of them. Case does not
 * count.
 */
export function suggest(
  word: string,
  known: Iterable<string>,
  reach: number = Math.max(1, Math.floor(word.length / 3)),
): string | undefined {
  if (word.length > wordMax) return undefined
  let nearest: string | undefined
  let least = reach + 1
  for (const candidate of known) {
    const apart = distance(word.toLowerCase(), candidate.toLowerCase())
    if (apart < least) {
      least = apart
      nearest = candidate
    }
  }
  return nearest
}

/** `: did you mean "port"?`, or nothing. */
export function didYouMean(word: string, known: Iterable<string>): string {
  const meant = suggest(word, known)
  return meant === undefined ? '' : `: did you mean "${meant}"?`
}
