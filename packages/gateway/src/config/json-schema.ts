/**
 * Exports the schemas for editors: JSON Schema (draft 7, which most of them know), without the keywords that
 * only the check at start understands. The files in schema/ are this output.
 */
import type { TSchema } from '@sinclair/typebox'
import { policySchema } from './policy-schema.ts'
import { configSchema } from './schema.ts'

const published = { config: configSchema, policy: policySchema } as const satisfies Record<string, TSchema>

export type SchemaName = keyof typeof published
export const schemaNames = Object.keys(published) as readonly SchemaName[]

/**
 * Keywords of the check at start, and `define`: a schema with it is written once and referred to by that name.
 */
const ownKeywords = new Set(['expects', 'secret', 'discriminator', 'define'])

type Json = Readonly<Record<string, unknown>>

export function jsonSchemaText(name: SchemaName): string {
  const definitions: Record<string, unknown> = {}
  const schema = publishedForm(published[name], definitions)
  const whole = { $schema: 'http://json-schema.org/draft-07/schema#', ...(schema as Json), definitions }
  return `${JSON.stringify(whole, null, 2)}\n`
}

function publishedForm(value: unknown, definitions: Record<string, unknown>): unknown {
  if (Array.isArray(value)) return value.map((entry) => publishedForm(entry, definitions))
  if (typeof value !== 'object' || value === null) return value
  const { define } = value as Json
  if (typeof define !== 'string') return ownForm(value as Json, definitions)
  definitions[define] ??= ownForm(value as Json, definitions)
  return { $ref: `#/definitions/${define}` }
}

function ownForm(value: Json, definitions: Record<string, unknown>): Json {
  const entries = Object.entries(value).filter(
    ([key, entry]) =>
      !(ownKeywords.has(key) && typeof entry !== 'object') &&
      !(key === 'format' && String(entry).startsWith('sluice-')),
  )
  return Object.fromEntries(entries.map(([key, entry]) => [key, publishedForm(entry, definitions)]))
}
