/**
 * Finds the entries that moved up to places before their due times on record, and so are to be promoted. Pure. The k-th
 * entry of a queue has the k-th place.
 */
import { countUntil } from './sorted.ts'
import type { ModuleQueue } from './throttle-limits.ts'

type Entries = Pick<ModuleQueue, 'ids' | 'places' | 'dues'>

/**
 * The entries whose place has come that are looked at, the last ones of each queue. Those in front of them may be entries
 * of nobody, whose process died before their acceptance was on record: they never take their turn.
 */
const comeMax = 8

/** An entry takes its turn at its place. One that has not done so for this long after it, ms, is an entry of nobody. */
const absentMs = 100

/**
 * Returns the next instant at which an entry may have to be promoted, epoch ms; undefined where there is none. Of the
 * places to come only the first one of each queue counts: those behind it are looked at when its entry takes its turn, or
 * has not taken it for `absentMs`. An entry that ends before its place takes no turn, so its end is such an instant; and
 * its place is one where it stands there behind its end, as an entry of nobody does.
 */
export function nextPromotionAt(queues: Iterable<Entries>, now: number): number | undefined {
  let earliest: number | undefined
  for (const { places, dues } of queues) {
    const come = countUntil(places, now)
    for (let index = Math.max(0, come - comeMax); index <= come && index < places.length; index += 1) {
      const [place, due] = [places[index]!, dues[index]!]
      const at = lookAt(place, due, now)
      if (at === undefined) continue
      if (earliest === undefined || at < earliest) earliest = at
    }
  }
  return earliest
}

function lookAt(place: number, due: number, now: number): number | undefined {
  if (place < due) return place
  if (place === due) return place + absentMs > now ? place + absentMs : undefined
  if (place <= now) return undefined
  return due > now ? due : place
}

/** Returns the entries whose place has come before their due time on record, each once. */
export function takePromoted(queues: Iterable<Entries>, now: number): readonly string[] {
  const promoted: string[] = []
  for (const { ids, places, dues } of queues) {
    for (let index = 0; index < ids.length && places[index]! <= now; index += 1) {
      if (places[index]! >= dues[index]!) continue
      dues[index] = places[index]!
      promoted.push(ids[index]!)
    }
  }
  return promoted
}
