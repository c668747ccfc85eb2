/**
 * The kinds of fields in the configuration. Each carries `expects`, the words with which a wrong value is
 * refused, and where a pattern does not suffice a format, which a reader of quantity.ts checks.
 */
import {
  FormatRegistry,
  Kind,
  type SchemaOptions,
  type StringOptions,
  type TArray,
  Type,
  TypeRegistry,
} from '@sinclair/typebox'
import { Check } from '@sinclair/typebox/value'
import { readDuration, readRate, readShare, readSize } from './quantity.ts'

type Read<Value> = (value: Value) => unknown

/** The readers of the formats; each throws the reason why a text is refused. */
export const formats: ReadonlyMap<string, Read<string>> = new Map<string, Read<string>>([
  ['sluice-duration', readDuration],
  ['sluice-rate', readRate],
  ['sluice-share', readShare],
  ['sluice-size', readSize],
])

/** The readers of lists whose entries have to go together. */
export const listFormats: ReadonlyMap<string, Read<readonly string[]>> = new Map([['sluice-rates', readRate]])

for (const [name, read] of formats) FormatRegistry.Set(name, (text) => reads(read, text))
for (const [name, read] of listFormats)
  TypeRegistry.Set<TArray>(
    name,
    ({ items, minItems, maxItems }, value) =>
      Check(Type.Array(items, { minItems: minItems!, maxItems: maxItems! }), value) &&
      reads(read, value as readonly string[]),
  )

function reads<Value>(read: Read<Value>, value: Value): boolean {
  try {
    read(value)
    return true
  } catch {
    return false
  }
}

const durationText = Type.String({
  format: 'sluice-duration',
  define: 'duration',
  pattern: '^\\s*\\d+\\s*(ms|s|min|h|d|day|week|month)\\s*$',
})
const sizeText = Type.String({
  format: 'sluice-size',
  define: 'size',
  pattern: '^\\d+\\s*(B|KiB|MiB|GiB|KB|MB|GB)$',
})
const window = '\\s*\\d+\\s*/\\s*\\d*\\s*(ms|s|min|h|d|day|week|month)\\s*'
const rateText = Type.String({
  format: 'sluice-rate',
  define: 'windows',
  pattern: `^(unlimited|${window}(,${window})*)$`,
})
/** An entry of a list may hold several windows. */
const rateList = Type.Unsafe<string[]>({
  ...Type.Array(Type.String({ format: 'sluice-rate', pattern: `^${window}(,${window})*$` }), {
    minItems: 1,
    maxItems: 16,
  }),
  [Kind]: 'sluice-rates',
  format: 'sluice-rates',
})

/**
 * Control characters are refused: no name, path or address needs a line break or a NUL, and some protocols take
 * it for the end of one.
 */
const plain = '^[^\\u0000-\\u001f\\u007f]+$'

export function text(expects: string, options: StringOptions = {}) {
  return Type.String({ minLength: 1, pattern: plain, ...options, expects })
}

export function flag(description: string) {
  return Type.Boolean({ expects: 'true or false', description })
}

export function count(minimum: number, maximum: number, description: string) {
  return Type.Integer({
    minimum,
    maximum,
    expects: `a whole number from ${minimum} to ${maximum}`,
    description,
  })
}

export function duration(description: string, options: SchemaOptions = {}) {
  const milliseconds = Type.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER })
  return Type.Union([durationText, milliseconds], {
    expects: 'a duration such as 300ms, 30s or 24h',
    description,
    ...options,
  })
}

export function size(description: string) {
  const bytes = Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER })
  return Type.Union([sizeText, bytes], { expects: 'a size such as 64KiB or 1MiB', description })
}

export function share(description: string) {
  const percent = Type.String({
    format: 'sluice-share',
    define: 'percent',
    pattern: '^\\d{1,3}(\\.\\d+)?\\s*%$',
  })
  return Type.Union([percent, Type.Number({ minimum: 0, maximum: 1 })], {
    expects: 'a share such as 5% or 0.05',
    description,
  })
}

export function rate(description: string) {
  return Type.Union([rateText, rateList], {
    expects: 'a rate such as 100/s, [100/s, 50000/h] or unlimited',
    description,
  })
}
