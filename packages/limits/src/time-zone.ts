/** Names of time zones, and the clocks on their walls. What `Intl` is asked for is dear, and remembered. */

/** The number of names that are remembered: the same zone in capitals is one more, and so is a name of no zone. */
const NAMES_MAX = 2_000
const NAME_LENGTH_MAX = 64

/**
 * Names that ICU knows and the IANA database does not. They mislead (`BST` is Dhaka there, `IST` Calcutta), and
 * whether they are accepted depends on the engine.
 */
const ICU_ONLY = /^(A[CEGRS]T|B[ES]T|C[ANST]T|E[AC]T|I[ES]T|JST|MIT|N[ES]T|P[LNRS]T|SST|VST|SystemV\/.*)$/i

/** Tells whether a name is one of a time zone: asking `Intl` costs 0.1 ms, more than all else that a notification needs. */
const names = new Map<string, boolean>()

/**
 * Tells whether this is the name of a time zone in the IANA database, links and lower case included (`UTC`,
 * `Europe/Rome`, `Asia/Calcutta`). Offsets such as `+02:00` are refused: they know no daylight saving, and a
 * person does not live in one. So are ICU's own abbreviations, whose meaning surprises. Answers are remembered.
 */
export function isTimeZone(name: string): boolean {
  const known = names.get(name)
  if (known !== undefined) return known
  if (typeof name !== 'string' || name.length > NAME_LENGTH_MAX) return false
  const isOne = isZoneName(name)
  dropOldest(names, NAMES_MAX)
  names.set(name, isOne)
  return isOne
}

function isZoneName(name: string): boolean {
  if (!/^[A-Z]/i.test(name) || ICU_ONLY.test(name)) return false
  try {
    wallClockOf(name)
    return true
  } catch {
    return false
  }
}

/** Not kept: a formatter holds 45 KB, far more than the offsets, and a new one costs 0.1 ms. */
export function wallClockOf(timeZone: string): Intl.DateTimeFormat {
  return new Intl.DateTimeFormat('en-US', {
    timeZone,
    calendar: 'gregory',
    numberingSystem: 'latn',
    hourCycle: 'h23',
    hour: '2-digit',
    minute: '2-digit',
    second: '2-digit',
  })
}

/** Makes room for one more. A map keeps its keys in the order in which they came. */
export function dropOldest<K>(map: Map<K, unknown>, max: number): void {
  if (map.size < max) return
  for (const key of map.keys()) {
    map.delete(key)
    return
  }
}
