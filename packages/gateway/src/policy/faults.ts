/**
 * Readers of a document that may hold anything. A reader returns one value typed, or notes the expected value
 * and returns undefined: reading goes on, so that all mistakes are reported at once.
 */
import type { FieldError } from '../errors.ts'

/** Mistakes that are listed at most; a document with more is something else than a policy. */
const faultsMax = 100

export class Faults {
  readonly #found: FieldError[] = []

  get found(): readonly FieldError[] {
    return this.#found
  }

  /**
   * Notes the expected value at a path such as `limits[3].over`; returns undefined, the value that is missing.
   */
  add(path: string, message: string): undefined {
    if (this.#found.length < faultsMax) this.#found.push({ path, message })
    return undefined
  }
}

export type Fields = Readonly<Record<string, unknown>>

/** Reads an object of known fields. Each other key is a fault, also `__proto__`. */
export function readFields(
  value: unknown,
  path: string,
  known: readonly string[],
  faults: Faults,
): Fields | undefined {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    return faults.add(path, `expected an object with ${known.join(', ')}; this is ${show(value)}`)
  }
  // without a prototype: a field that the document lacks is undefined, whatever its name
  const fields: Record<string, unknown> = Object.create(null)
  for (const [key, entry] of Object.entries(value)) {
    if (!known.includes(key)) {
      faults.add(join(path, key), `is not known here; known are ${known.join(', ')}`)
    } else if (entry !== null && entry !== undefined) {
      // a key without a value, as YAML allows, counts as missing
      fields[key] = entry
    }
  }
  return fields
}

export function readList(
  value: unknown,
  path: string,
  sizeMax: number,
  faults: Faults,
): readonly unknown[] | undefined {
  if (!Array.isArray(value)) return faults.add(path, `expected a list; this is ${show(value)}`)
  if (value.length > sizeMax)
    return faults.add(path, `has ${value.length} entries, at most ${sizeMax} are carried`)
  return value
}

/**
 * Reads one text, or a list of them: sorted, without duplicates. `check` returns what is wrong with one, if
 * anything.
 */
export function readTexts(
  value: unknown,
  path: string,
  faults: Faults,
  check: (text: string) => string | undefined,
): readonly string[] | undefined {
  const list = Array.isArray(value) ? readList(value, path, 1_000, faults) : [value]
  if (list === undefined) return undefined
  if (list.length === 0) return faults.add(path, 'is an empty list, which nothing would match')
  const texts = list.map((entry, index) =>
    readText(entry, Array.isArray(value) ? `${path}[${index}]` : path, faults, check),
  )
  return texts.every((text) => text !== undefined) ? [...new Set(texts)].sort() : undefined
}

export function readText(
  value: unknown,
  path: string,
  faults: Faults,
  check?: (text: string) => string | undefined,
): string | undefined {
  if (typeof value !== 'string') return faults.add(path, `expected a text; this is ${show(value)}`)
  const wrong = nameFault(value) ?? check?.(value)
  return wrong === undefined ? value : faults.add(path, wrong)
}

export function readCount(value: unknown, path: string, max: number, faults: Faults): number | undefined {
  if (typeof value === 'number' && Number.isInteger(value) && value >= 1 && value <= max) return value
  return faults.add(path, `expected a whole number from 1 to ${max}; this is ${show(value)}`)
}

/** Checks for one of a closed set of words. */
export function oneOf(words: readonly string[]): (text: string) => string | undefined {
  return (text) => (words.includes(text) ? undefined : `${show(text)} is none of ${words.join(', ')}`)
}

// Control characters would allow two names to look the same, and one of them marks the authors of a digest.
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const control = /[\u0000-\u001f\u007f]/

function nameFault(text: string): string | undefined {
  if (text === '') return 'is empty'
  if (text.length > 256) return 'is longer than 256 characters'
  if (control.test(text) || !text.isWellFormed()) return 'holds a control character or half of a character'
  return undefined
}

export function join(path: string, key: string): string {
  return path === '' ? key : `${path}.${key}`
}

/** Formats a value for a message: texts quoted and cut, objects and lists by their kind. */
export function show(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(value.length > 60 ? `${value.slice(0, 60)}…` : value)
  if (value === null || value === undefined) return 'missing'
  if (Array.isArray(value)) return 'a list'
  if (typeof value === 'object') return 'an object'
  return typeof value === 'function' || typeof value === 'symbol' ? `a ${typeof value}` : String(value)
}
