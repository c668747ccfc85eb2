/**
 * Selectors and streams of limits and digests. A selector is a set of allowed values for each field it names; a
 * stream is the selector's text with the values of the counting fields behind it. These texts are keys: two
 * different selectors or value sets never share one.
 */
import type { Notification } from '../model.ts'
import type { Countable } from '../ports.ts'

/** The fields by which a limit can select, in the order of their canonical text. */
export const selectorFields = ['category', 'channel', 'module', 'priority', 'template'] as const
export type SelectorField = (typeof selectorFields)[number]

/** The fields by which a limit can count, in the order of their canonical text. */
export const perFields = [
  'actor',
  'address',
  'category',
  'channel',
  'module',
  'recipient',
  'template',
  'tenant',
] as const
export type PerField = (typeof perFields)[number]

/**
 * The fields that distinguish the counts of a limit beyond the recipient: every limit is within its tenant
 * anyway.
 */
export type ValueField = Exclude<PerField, 'recipient' | 'tenant'>

export type Selector =
  | { readonly kind: 'any' }
  /** Matches where no limit that names a category or channel does. */
  | { readonly kind: 'otherwise' }
  /** Sorted, without duplicates; an absent field allows every value. */
  | { readonly kind: 'fields'; readonly fields: Readonly<Partial<Record<SelectorField, readonly string[]>>> }

export type Selectable = Pick<Notification, SelectorField & keyof Notification>

/**
 * True where the values match the selector. `otherwise` depends on the other limits, and matches nothing here.
 */
export function suits(selector: Selector, of: Selectable): boolean {
  if (selector.kind !== 'fields') return selector.kind === 'any'
  for (const field of selectorFields) {
    const allowed = selector.fields[field]
    if (allowed !== undefined && !allowed.includes(of[field] ?? '')) return false
  }
  return true
}

export function namesCategoryOrChannel(selector: Selector): boolean {
  return (
    selector.kind === 'fields' &&
    (selector.fields.category !== undefined || selector.fields.channel !== undefined)
  )
}

/** `any`, `otherwise`, or `category=marketing,channel=email+push`. */
export function selectorText(selector: Selector): string {
  if (selector.kind !== 'fields') return selector.kind
  const parts: string[] = []
  for (const field of selectorFields) {
    const allowed = selector.fields[field]
    if (allowed !== undefined) parts.push(`${field}=${allowed.map(escapeValue).join('+')}`)
  }
  return parts.join(',')
}

export type Values = Readonly<Partial<Record<ValueField, string>>>

/** Formats `actor=author-7,channel=email`: the fields in their canonical order; a missing value is empty. */
export function valuesText(fields: readonly ValueField[], values: Values): string {
  return fields.map((field) => `${field}=${escapeValue(values[field] ?? '')}`).join(',')
}

/**
 * Separators of our texts, characters that a Redis Cluster reads in keys, and lone surrogates, which UTF-8
 * cannot hold.
 */
const reserved = /[%/|,=+#{}]|\p{Surrogate}/u
const everyReserved = /[%/|,=+#{}]|\p{Surrogate}/gu

/** Escapes reserved characters as `%2F` and the like, so that no value can pretend to be several. */
export function escapeValue(value: string): string {
  if (!reserved.test(value)) return value
  return value.replace(everyReserved, (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`)
}

/**
 * Returns the authors that a notification counts for, each once; one without authors counts under the empty
 * author.
 */
export function authorsOf(countable: Pick<Countable, 'actor' | 'actors'>): readonly string[] {
  const { actor = '', actors } = countable
  return actors === undefined || actors.length === 0 ? [actor] : [...new Set(actors)]
}
