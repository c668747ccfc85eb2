/**
 * A change is refused as a whole where the record is no longer as it believed: somebody else was first. Whoever reads,
 * decides and commits does so again then, here, and says what follows when even that was in vain.
 */

/** What an attempt answers that met a concurrent change: nothing of it was written. */
export const conflicted: unique symbol = Symbol('conflicted')
export type Conflicted = typeof conflicted

/** More concurrent changes in a row than this are not chance. */
const triesMax = 8

/** Attempts until one is not refused; `conflicted` after eight. What is thrown ends it at once. */
export async function retryOnConflict<T>(attempt: () => Promise<T | Conflicted>): Promise<T | Conflicted> {
  for (let tries = 1; tries <= triesMax; tries += 1) {
    const result = await attempt()
    if (result !== conflicted) return result
  }
  return conflicted
}
