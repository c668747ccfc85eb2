/** JSON as lua-cjson of Redis reads and writes it. */
import { formatNumber, LuaError, LuaTable, type LuaValue, Packed, typeOf } from './lua-values.ts'

type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json }

/** A sparse list is refused from so many places on, where more than half of them are empty. */
const sparseMin = 10

/** The value that cjson makes of `null`: no other value of Lua is equal to it. */
const nullValue: LuaValue = () => undefined

type BytesOf = (text: string) => string

export function decodeJson(text: string): LuaValue {
  // A text of bytes is read as they are, unless escapes name characters of several bytes.
  if (!text.includes('\\u')) return fromJson(JSON.parse(text) as Json)
  const parsed = JSON.parse(Buffer.from(text, 'latin1').toString()) as Json
  return fromJson(parsed, (each) => Buffer.from(each).toString('latin1'))
}

function fromJson(value: Json, bytesOf?: BytesOf): LuaValue {
  if (typeof value === 'string') return bytesOf === undefined ? value : bytesOf(value)
  if (value === null) return nullValue
  if (typeof value !== 'object') return value
  if (Array.isArray(value)) {
    const list = value as (Json | LuaValue)[]
    for (let index = 0; index < list.length; index += 1)
      if (typeof list[index] !== 'number') list[index] = fromJson(list[index] as Json, bytesOf)
    return new LuaTable(list as LuaValue[])
  }
  const map = new Map<LuaValue, LuaValue>()
  for (const [name, each] of Object.entries(value))
    map.set(bytesOf === undefined ? name : bytesOf(name), fromJson(each, bytesOf))
  return new LuaTable([], map)
}

const short: Readonly<Record<string, string>> = {
  '"': '\\"',
  '\\': '\\\\',
  '/': '\\/',
  '\b': '\\b',
  '\f': '\\f',
  '\n': '\\n',
  '\r': '\\r',
  '\t': '\\t',
}
const quoted = (text: string): string =>
  `"${text.replace(
    // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what JSON escapes
    /["\\/\u0000-\u001f\u007f]/g,
    (each) => short[each] ?? `\\u${each.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )}"`

export function encodeJson(value: LuaValue): string {
  if (typeof value === 'string') return quoted(value)
  if (typeof value === 'number') return formatNumber(value, 14)
  if (value === undefined || value === nullValue) return 'null'
  if (typeof value === 'boolean') return String(value)
  if (!(value instanceof LuaTable) || value instanceof Packed)
    throw new LuaError(`Cannot serialise ${typeOf(value)}: type not supported`)
  const { list, map } = value
  if (list.length > 0 && (map === undefined || map.size === 0)) return `[${list.map(encodeJson).join(',')}]`
  const keys = value.keys()
  if (keys.length === 0) return '{}'
  if (keys.every((key) => typeof key === 'number' && key >= 1 && Number.isInteger(key))) {
    const most = Math.max(...(keys as number[]))
    if (most > sparseMin && most > 2 * keys.length)
      throw new LuaError('Cannot serialise table: excessively sparse array')
    const listed = Array.from({ length: most }, (_, index) => encodeJson(value.get(index + 1)))
    return `[${listed.join(',')}]`
  }
  const fields = keys.map((key) => {
    const name = typeof key === 'number' ? formatNumber(key, 14) : key
    if (typeof name !== 'string')
      throw new LuaError('Cannot serialise table: table key must be a number or string')
    return `${quoted(name)}:${encodeJson(value.get(key))}`
  })
  return `{${fields.join(',')}}`
}
