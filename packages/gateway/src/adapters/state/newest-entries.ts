/**
 * Entries of a subject that is read again from the record, as this process knows them: a send or a new instant may not be
 * on record yet, or may have been written after the record was read.
 */
import type { RestoredEntry } from '@sluice/limits'

/** @param known the entries of the subject in memory; their streams are those of the rules before */
export function newestEntries(
  known: readonly RestoredEntry[],
  recorded: readonly RestoredEntry[],
): readonly RestoredEntry[] {
  const byId = new Map(known.map((entry) => [entry.id, entry]))
  return recorded.map((entry) => {
    const newer = byId.get(entry.id)
    return newer === undefined || entry.fired ? entry : { ...entry, at: newer.at, fired: newer.fired }
  })
}
