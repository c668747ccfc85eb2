/**
 * Checks a value against a schema and says of each invalid field which value was expected and which one stands
 * there. The schema's `expects` gives the words; an unknown key is answered with the key that was probably
 * meant. Pure.
 */
import { KindGuard, type TObject, type TSchema, type TUnion } from '@sinclair/typebox'
import { Errors, type ValueError, ValueErrorType } from '@sinclair/typebox/errors'
import { formats, listFormats } from './schema-terms.ts'
import { didYouMean } from './suggestion.ts'
import type { Path } from './yaml-file.ts'

export interface Misfit {
  readonly path: Path
  readonly message: string
}

/** Settings that are known but not supported by this version: by their path, `*` for any name. */
export type NotCarried = ReadonlyMap<string, string>

export function misfits(schema: TSchema, value: unknown, notCarried: NotCarried, path: Path = []): Misfit[] {
  const found: Misfit[] = []
  for (const error of Errors(schema, value)) {
    found.push(...misfitsOf(error, notCarried, [...path, ...stepsOf(error.path, value)]))
  }
  return found
}

function misfitsOf(error: ValueError, notCarried: NotCarried, path: Path): readonly Misfit[] {
  switch (error.type) {
    case ValueErrorType.ObjectAdditionalProperties:
      return [{ path, message: unknownKey(path, error.schema as TObject, notCarried) }]
    case ValueErrorType.ObjectRequiredProperty:
      return [{ path, message: `is missing; expected ${expectationOf(error.schema)}` }]
    case ValueErrorType.Union: {
      const union = error.schema as TUnion
      const member = memberFor(union, error.value)
      if (member === 'unknown')
        return [unknownMember(union, error.value as Record<string, unknown>, notCarried, path)]
      if (member !== undefined) return misfits(member, error.value, notCarried, path)
      break
    }
    default:
  }
  if (error.schema.secret === true) return [{ path, message: `expected ${expectationOf(error.schema)}` }]
  return [
    {
      path,
      message: `expected ${expectationOf(error.schema)}; this is ${shown(error.value)}${reason(error)}`,
    },
  ]
}

function unknownKey(path: Path, schema: TObject, notCarried: NotCarried): string {
  const key = String(path.at(-1))
  const later = notCarried.get(path.map((step, index) => placeholder(path, step, index)).join('.'))
  if (later !== undefined) return later
  const known = Object.keys(schema.properties ?? {})
  return `is not known here${didYouMean(key, known) || `; known are ${known.join(', ')}`}`
}

/** Replaces names that the operator chooses: `pools.email.breaker` → `pools.*.breaker`. */
function placeholder(path: Path, step: string | number, index: number): string {
  const named = typeof step === 'number' || (index === 1 && (path[0] === 'pools' || path[0] === 'tenants'))
  return named ? '*' : step
}

/**
 * Chooses the member of a union that was meant: a list for a list, and for an object the one of its
 * discriminator.
 */
function memberFor(union: TUnion, value: unknown): TSchema | 'unknown' | undefined {
  if (Array.isArray(value))
    return union.anyOf.find((member) => KindGuard.IsArray(member) && isStructured(member.items))
  if (typeof value !== 'object' || value === null) return undefined
  const discriminator: unknown = union.discriminator
  if (typeof discriminator !== 'string') return union.anyOf.find((member) => KindGuard.IsUnion(member))
  const name = (value as Record<string, unknown>)[discriminator]
  return union.anyOf.find((member) => literalOf(member, discriminator) === name) ?? 'unknown'
}

function unknownMember(
  union: TUnion,
  value: Record<string, unknown>,
  notCarried: NotCarried,
  path: Path,
): Misfit {
  const discriminator = String(union.discriminator)
  const name = value[discriminator]
  const known = union.anyOf.map((member) => String(literalOf(member, discriminator)))
  const at = [...path, discriminator]
  if (name === undefined) return { path: at, message: `is missing; expected one of ${known.join(', ')}` }
  const later = typeof name === 'string' ? notCarried.get(`${discriminator}=${name}`) : undefined
  const meant = typeof name === 'string' ? didYouMean(name, known) : ''
  return { path: at, message: later ?? `expected one of ${known.join(', ')}; this is ${shown(name)}${meant}` }
}

function literalOf(schema: TSchema, property: string): unknown {
  return (schema as TObject).properties?.[property]?.const
}

function isStructured(schema: TSchema): boolean {
  return KindGuard.IsObject(schema) || KindGuard.IsUnion(schema)
}

function expectationOf(schema: TSchema): string {
  if (typeof schema.expects === 'string') return schema.expects
  if (KindGuard.IsObject(schema)) return `an object with ${Object.keys(schema.properties).join(', ')}`
  if (KindGuard.IsRecord(schema)) return 'an object'
  if (KindGuard.IsLiteral(schema)) return JSON.stringify(schema.const)
  if (KindGuard.IsArray(schema)) return 'a list'
  return 'something else'
}

/** The reason of the format's reader, where it says more than the pattern. */
function reason(error: ValueError): string {
  const candidates: readonly TSchema[] = KindGuard.IsUnion(error.schema) ? error.schema.anyOf : [error.schema]
  const value: unknown = error.value
  const texts = typeof value === 'string' ? [value] : Array.isArray(value) ? value : []
  const written = ({ pattern }: TSchema, text: unknown): text is string =>
    typeof text === 'string' && new RegExp(String(pattern)).test(text)
  for (const candidate of candidates) {
    const read = formats.get(String(candidate.format))
    if (read !== undefined) {
      const refused = texts.find((text) => written(candidate, text) && refusal(read, text) !== '')
      if (refused !== undefined) return refusal(read, refused)
    }
    const readList = listFormats.get(String(candidate.format))
    if (
      readList !== undefined &&
      Array.isArray(value) &&
      value.every((text) => written(candidate.items, text))
    )
      return refusal(readList, value)
  }
  return ''
}

/** The reason why a reader refuses a value, in brackets; empty where it takes it. */
function refusal<Value>(read: (value: Value) => unknown, value: Value): string {
  try {
    read(value)
    return ''
  } catch (cause) {
    return ` (${(cause as Error).message})`
  }
}

function shown(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(value.length > 60 ? `${value.slice(0, 60)}…` : value)
  if (value === undefined) return 'missing'
  if (value === null) return 'empty'
  if (Array.isArray(value))
    return value.length <= 4 && value.every(isScalar) ? `[${value.map(shown).join(', ')}]` : 'a list'
  return typeof value === 'object' ? 'an object' : String(value)
}

function isScalar(value: unknown): boolean {
  return typeof value !== 'object' || value === null
}

/** Splits a JSON Pointer into steps; a step is an index only where the value has a list. */
function stepsOf(pointer: string, root: unknown): Path {
  let value = root
  return pointer
    .split('/')
    .slice(1)
    .map((escaped) => {
      const key = escaped.replaceAll('~1', '/').replaceAll('~0', '~')
      const step = Array.isArray(value) ? Number(key) : key
      value =
        typeof value === 'object' && value !== null
          ? (value as Record<string | number, unknown>)[step]
          : undefined
      return step
    })
}

/** Formats a path: `pools.email.accounts[0].rate`. */
export function pathText(path: Path): string {
  return path.reduce<string>(
    (text, step) => (typeof step === 'number' ? `${text}[${step}]` : text === '' ? step : `${text}.${step}`),
    '',
  )
}
