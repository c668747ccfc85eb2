/**
 * Parses bytes into JSON and refuses harmful input: invalid UTF-8, a NUL or a lone surrogate in any text or key, keys that
 * would reach a prototype, and numbers beyond the range of a double, which would be stored as null. A scan of the raw
 * text finds whether any can occur; only then is the tree searched for the place.
 */
import { isUtf8 } from 'node:buffer'
import { type FieldError, SluiceError } from '../errors.ts'
import { pointer } from './validation.ts'

/** Such input, and escapes that can hide it: \u0000, lone surrogates, and letters that no serialiser escapes. */
const suspicious = /\\u(?:0000|[dD][89a-fA-F]|00[567])|__proto__|"constructor"|\d(?:[eE]\+?\d{3}|\d{308})/

const faultsMax = 20
/** Levels of nested objects and lists in `data` at most. */
export const dataLevelsMax = 32

/** Throws INVALID_JSON, or INVALID_REQUEST where the JSON is valid but holds what no request may. */
export function parseJson(bytes: Buffer, what: 'body' | 'message' = 'body'): unknown {
  if (!isUtf8(bytes)) throw new SluiceError('INVALID_JSON', `The ${what} is not valid UTF-8.`)
  const text = bytes.toString('utf8')
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch (error) {
    throw new SluiceError(
      'INVALID_JSON',
      bytes.length === 0 ? `The ${what} is empty.` : reasonOf(error, what),
    )
  }
  if (suspicious.test(text)) refuseHarmful(value)
  return value
}

/** Explains a syntax error as far as V8 tells, without repeating the client's text. */
function reasonOf(error: unknown, what: string): string {
  const message = error instanceof Error ? error.message : ''
  if (message.startsWith('Unexpected end')) return `The ${what} is not valid JSON: it ends too early.`
  const position = /at position (\d+)/.exec(message)?.[1]
  return position === undefined
    ? `The ${what} is not valid JSON.`
    : `The ${what} is not valid JSON at position ${position}.`
}

interface Place {
  readonly value: unknown
  readonly key: string
  readonly parent: Place | undefined
}

function refuseHarmful(root: unknown): void {
  const errors: FieldError[] = []
  // An explicit stack instead of recursion: a megabyte of brackets is deeper than the call stack.
  const waiting: Place[] = [{ value: root, key: '', parent: undefined }]
  for (let place = waiting.pop(); place !== undefined && errors.length < faultsMax; place = waiting.pop()) {
    const { value } = place
    if (typeof value === 'string') {
      const message = faultOf(value)
      if (message !== undefined) errors.push({ path: pathOf(place), message })
    } else if (typeof value === 'number') {
      if (!Number.isFinite(value))
        errors.push({ path: pathOf(place), message: 'is a number beyond ±1.8e308' })
    } else if (typeof value === 'object' && value !== null) {
      for (const [key, inside] of Object.entries(value)) {
        const next: Place = { value: inside, key, parent: place }
        const message = keyFaultOf(key)
        if (message === undefined) waiting.push(next)
        else errors.push({ path: pathOf(next), message })
      }
    }
  }
  if (errors.length > 0) {
    throw new SluiceError('INVALID_REQUEST', `${errors[0]!.path} ${errors[0]!.message}.`, { errors })
  }
}

function faultOf(text: string): string | undefined {
  if (text.includes('\0')) return 'must not contain NUL'
  if (!text.isWellFormed()) return 'must not contain half of a character (a lone surrogate)'
  return undefined
}

function keyFaultOf(key: string): string | undefined {
  if (key === '__proto__' || key === 'constructor') return 'is not allowed as a key'
  const fault = faultOf(key)
  return fault === undefined ? undefined : `${fault} in a key`
}

function pathOf(place: Place): string {
  const keys: string[] = []
  for (let at: Place | undefined = place; at?.parent !== undefined; at = at.parent) {
    keys.push(pointer(at.key.replaceAll('\0', '\\u0000').toWellFormed()))
    if (keys.length > 40) break
  }
  return keys.length === 0 ? '' : `/${keys.reverse().join('/')}`
}

/** True where objects and arrays are nested more than `max` times; the value itself is the first level. */
export function isDeeperThan(value: unknown, max: number): boolean {
  if (typeof value !== 'object' || value === null) return false
  if (max === 0) return true
  if (Array.isArray(value)) return value.some((each) => isDeeperThan(each, max - 1))
  for (const key in value) if (isDeeperThan((value as Record<string, unknown>)[key], max - 1)) return true
  return false
}
