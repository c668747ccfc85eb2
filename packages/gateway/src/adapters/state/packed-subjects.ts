/**
 * The state of recipients who left the memory of the limiter and have nothing booked: one text each, some 100 bytes and
 * 70 for each notification that counts, where the limiter's own form has 1,450 and 250. A question to the store
 * in its place costs 135 µs of CPU (100,000 recipients in turn, batches of 100 over HTTP: 242 µs a message without this,
 * 150 with it).
 */
import type { RestoredEntry } from '@sluice/limits'
import type { RecoveredSubject } from '../../ports/recovered-subject.ts'
import type { FingerprintHolders } from './known-subject.ts'
import { MapWalk } from './map-walk.ts'

export interface PackedSubjects {
  /** Keeps the state of a subject, unless it holds more than instants that count. */
  put(key: string, entries: readonly RestoredEntry[], fingerprints: FingerprintHolders | undefined): void
  /** Answers the state of a subject and forgets it. */
  take(key: string): RecoveredSubject | undefined
  has(key: string): boolean
  readonly size: number
}

/** Entries that count in the same streams: the streams, then an id and an instant by turns. */
type Group = readonly [streams: readonly string[], ...idsAndInstants: readonly (string | number)[]]
type Packed = readonly [groups: readonly Group[], fingerprints: readonly (string | number)[]]

/** Characters that a subject takes besides its text: its key and its place in the map. */
const overhead = 100

/** @param charactersMax the oldest subjects go above so many characters in all, a byte each as nearly always */
export function createPackedSubjects(charactersMax: number): PackedSubjects {
  const texts = new Map<string, string>()
  let characters = 0
  const walk = new MapWalk(texts)

  function remove(key: string, text: string): void {
    texts.delete(key)
    characters -= text.length + overhead
  }

  function removeOldest(): void {
    const next = walk.next()
    if (next !== undefined) remove(...next)
  }

  return {
    get size() {
      return texts.size
    },
    put(key, entries, fingerprints = new Map()) {
      const groups = new Map<string, [readonly string[], ...(string | number)[]]>()
      for (const { id, at, fired, streams, weight = 1 } of entries) {
        // The record knows everything of a reservation, and who moves up is decided from the record.
        if (!fired || weight !== 1) return
        const name = streams.join('\n')
        const group = groups.get(name)
        if (group === undefined) groups.set(name, [streams, id, at])
        else group.push(id, at)
      }
      const packed: Packed = [
        [...groups.values()],
        [...fingerprints].flatMap(([fingerprint, { id, at }]) => [fingerprint, id, at]),
      ]
      const text = JSON.stringify(packed)
      texts.set(key, text)
      walk.wrote()
      characters += text.length + overhead
      while (characters > charactersMax) removeOldest()
    },
    has: (key) => texts.has(key),
    take(key) {
      const text = texts.get(key)
      if (text === undefined) return undefined
      remove(key, text)
      const [groups, flat] = JSON.parse(text) as Packed
      const entries: RestoredEntry[] = []
      for (const [streams, ...pairs] of groups)
        for (let index = 0; index < pairs.length; index += 2)
          entries.push({ id: pairs[index] as string, at: pairs[index + 1] as number, fired: true, streams })
      const fingerprints: RecoveredSubject['fingerprints'][number][] = []
      for (let index = 0; index < flat.length; index += 3) {
        const [fingerprint, id, at] = flat.slice(index, index + 3) as [string, string, number]
        fingerprints.push({ fingerprint, id, at })
      }
      return { entries, fingerprints, waitlist: [] }
    },
  }
}
