/**
 * Retries after a concurrent change. A commit is refused as a whole where the record has changed since it was read;
 * its caller reads, decides and commits again here, and handles the case that all tries were in vain.
 */

/** A record that has changed since a change was computed. */
export interface Conflict {
  readonly kind:
    | 'notification'
    | 'digest'
    | 'job'
    | 'answer'
    | 'content'
    | 'recipient'
    | 'erased'
    | 'generation'
    | 'member'
  /**
   * The id of the record; for an answer its Idempotency-Key, for a generation its tenant, for `erased` the id of the recipient,
   * under which the notification does not stand any more. For `member` the name of this process: it was declared dead, and
   * the store takes no more changes of it.
   */
  readonly key: string
}

/** Looks up what became of a commit whose answer was lost (`isUncertain` of its error). */
export interface CommitLookup<Change> {
  /**
   * Tells if the change is on record. The answer is final: a change that is not on record by then is refused if it
   * arrives later. Rejects where the store does not answer.
   */
  isApplied(change: Change): Promise<boolean>
}

/** Result of an attempt that met a concurrent change: nothing of it was written. */
export const conflicted: unique symbol = Symbol('conflicted')
export type Conflicted = typeof conflicted

/** More concurrent changes in a row than this are not chance. */
const triesMax = 8

/** Runs the attempt until it meets no conflict; `conflicted` after eight. An exception ends it at once. */
export async function retryOnConflict<T>(attempt: () => Promise<T | Conflicted>): Promise<T | Conflicted> {
  for (let tries = 1; tries <= triesMax; tries += 1) {
    const result = await attempt()
    if (result !== conflicted) return result
  }
  return conflicted
}

/** True if the conflicts name this record. */
export const isAmong = (conflicts: readonly Conflict[], kind: Conflict['kind'], key: string): boolean =>
  conflicts.some((conflict) => conflict.kind === kind && conflict.key === key)
