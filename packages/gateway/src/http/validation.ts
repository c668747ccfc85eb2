/**
 * Compiles schemas into checks. The first fault refuses a request; only then, and only for a request so small
 * that a list of faults stays small too, is everything checked again to name all of them.
 */
import type { TSchema } from '@sinclair/typebox'
import { Ajv, type ErrorObject, type Options, type ValidateFunction } from 'ajv'
import { type FieldError, SluiceError } from '../errors.ts'
import { type FormName, forms } from './syntax.ts'

/** Faults that one answer names. */
const faultsMax = 50
/**
 * Values in a request above which only its first fault is named: thousands of wrong items would be as many
 * faults.
 */
const valuesMax = 2_000

/** A fault; `misspelt` marks one in the text of a value only: an address, a time zone. */
interface Fault extends FieldError {
  readonly misspelt: boolean
}

/** Returns nothing for a valid value, else its faults. */
export type Check = (value: unknown) => readonly Fault[] | undefined

const options: Options = {
  removeAdditional: false,
  useDefaults: false,
  coerceTypes: false,
  strict: false,
  // Lengths in UTF-16 units: counting code points walks through every text.
  unicode: false,
  // Otherwise it logs at every start that `unicode` is deprecated.
  logger: false,
  // The schemas are our own, and TypeBox made them: to check them costs more than to compile them.
  meta: false,
  validateSchema: false,
  ownProperties: true,
}

function createAjv(more: Options): Ajv {
  const ajv = new Ajv({ ...options, ...more })
  for (const [name, form] of Object.entries(forms)) ajv.addFormat(name, form.check)
  return ajv
}

const body = { first: createAjv({}), all: createAjv({ allErrors: true }) }
// Values of a path or query are text, numbers too.
const query = {
  first: createAjv({ coerceTypes: true, useDefaults: true }),
  all: createAjv({ coerceTypes: true, allErrors: true }),
}

/**
 * The schema is compiled with its first use. With the description of the interface, which is made on demand too, that took
 * a start of the gateway from 1.08 s of CPU to 0.79 s (median of five, interleaved).
 */
export function compileCheck(schema: TSchema, part: 'body' | 'query' = 'body'): Check {
  const by = part === 'body' ? body : query
  let first: ValidateFunction | undefined
  let all: ValidateFunction | undefined
  return (value) => {
    first ??= compile(by.first, schema)
    if (first(value)) return undefined
    if (isLarge(value)) return faultsOf(first.errors ?? [])
    all ??= compile(by.all, schema)
    all(value)
    return faultsOf(all.errors ?? first.errors ?? [])
  }
}

function compile(ajv: Ajv, schema: TSchema): ValidateFunction {
  return (schema.$id === undefined ? undefined : ajv.getSchema(schema.$id)) ?? ajv.compile(schema)
}

/** The error that a client receives. */
export function invalidRequest(errors: readonly FieldError[]): SluiceError {
  const [first] = errors
  const where = first === undefined || first.path === '' ? 'The request' : first.path
  const detail = first === undefined ? 'The request does not fit.' : `${where} ${first.message}.`
  return new SluiceError(
    'INVALID_REQUEST',
    errors.length > 1 ? `${detail} (1 of ${errors.length} faults)` : detail,
    {
      errors,
    },
  )
}

/** Keywords about the text of a value, not about its type. */
const spelling = new Set(['format', 'minLength', 'maxLength'])

function faultsOf(errors: readonly ErrorObject[]): readonly Fault[] {
  const byPath = new Map<string, Fault>()
  for (const error of errors) {
    const fault = { ...fieldError(error), misspelt: spelling.has(error.keyword) }
    // An empty text is too short and has no valid format either: one fault is enough.
    if (!byPath.has(fault.path)) byPath.set(fault.path, fault)
    if (byPath.size === faultsMax) break
  }
  return [...byPath.values()]
}

function fieldError({ instancePath, keyword, params, message }: ErrorObject): FieldError {
  switch (keyword) {
    case 'additionalProperties':
      return {
        path: `${instancePath}/${pointer(String(params.additionalProperty))}`,
        message: 'is not a known field',
      }
    case 'required':
      return { path: `${instancePath}/${pointer(String(params.missingProperty))}`, message: 'is required' }
    case 'enum':
      return {
        path: instancePath,
        message: `must be one of ${(params.allowedValues as string[]).join(', ')}`,
      }
    case 'format':
      return { path: instancePath, message: `must be ${forms[params.format as FormName].expects}` }
    case 'type':
      return { path: instancePath, message: `must be ${[params.type].flat().map(article).join(' or ')}` }
    default:
      return { path: instancePath, message: message ?? 'does not fit' }
  }
}

function article(type: string): string {
  if (type === 'null' || type === 'boolean') return type
  return /^[aeiou]/.test(type) ? `an ${type}` : `a ${type}`
}

/** Escapes a key as part of a JSON Pointer (RFC 6901); overlong ones are cut, also within a character. */
export function pointer(key: string): string {
  const short = key.length > 100 ? `${key.slice(0, 100).toWellFormed()}…` : key
  return short.replaceAll('~', '~0').replaceAll('/', '~1')
}

function isLarge(value: unknown): boolean {
  let seen = 0
  const waiting: unknown[] = [value]
  while (waiting.length > 0) {
    const next = waiting.pop()
    if (typeof next !== 'object' || next === null) continue
    const inside = Object.values(next)
    seen += inside.length
    if (seen > valuesMax) return true
    for (const each of inside) waiting.push(each)
  }
  return false
}
