/**
 * Values of Lua 5.1 as the translated scripts handle them. A text is a JavaScript string with one character a byte, nil is
 * undefined, several values at once are an array, and a table is a `LuaTable`. Operators here follow Lua where JavaScript
 * differs, and fail where Lua fails.
 */

// Functions of scripts take and answer any values: each operator checks them as Lua does.
export type LuaFunction = (...args: LuaValue[]) => LuaResult
export type LuaValue = undefined | boolean | number | string | LuaTable | LuaFunction | Packed
/** One value, or several at once. */
export type LuaResult = LuaValue | LuaValue[]

/** A failure of a script, as `error` and wrong operands make it. */
export class LuaError extends Error {}

/** Values that cmsgpack has packed: they are kept as values, and copied again when they are unpacked. */
export class Packed {
  readonly values: readonly LuaValue[]
  constructor(values: readonly LuaValue[]) {
    this.values = values
  }
}

/** A table: the values of the keys 1, 2, 3 … in a list, all others in a map. */
export class LuaTable {
  list: LuaValue[]
  map: Map<LuaValue, LuaValue> | undefined

  constructor(list: LuaValue[] = [], map?: Map<LuaValue, LuaValue>) {
    this.list = list
    this.map = map
    if (list.length > 0 && list[list.length - 1] === undefined) this.#trim()
  }

  /** A list ends with a value that is not nil. */
  #trim(): void {
    const { list } = this
    while (list.length > 0 && list[list.length - 1] === undefined) list.pop()
  }

  get(key: LuaValue): LuaValue {
    if (typeof key === 'number' && key >= 1 && key <= this.list.length && Number.isInteger(key))
      return this.list[key - 1]
    return this.map === undefined ? undefined : this.map.get(key)
  }

  set(key: LuaValue, value: LuaValue): void {
    if (typeof key === 'number') {
      const { list } = this
      if (key >= 1 && key <= list.length && Number.isInteger(key)) {
        list[key - 1] = value
        if (value === undefined && key === list.length) this.#trim()
        return
      }
      if (key === list.length + 1) {
        if (value === undefined) this.map?.delete(key)
        else this.#append(value)
        return
      }
      if (Number.isNaN(key)) throw new LuaError('table index is NaN')
    }
    if (key === undefined) throw new LuaError('table index is nil')
    if (value === undefined) this.map?.delete(key)
    else {
      this.map ??= new Map()
      this.map.set(key, value)
    }
  }

  #append(value: LuaValue): void {
    this.list.push(value)
    const { map } = this
    if (map === undefined || map.size === 0) return
    map.delete(this.list.length)
    for (;;) {
      const key = this.list.length + 1
      const next = map.get(key)
      if (next === undefined) return
      map.delete(key)
      this.list.push(next)
    }
  }

  /** Keys whose values are not nil: those of the list, then the others in the order in which they were set. */
  keys(): LuaValue[] {
    const keys: LuaValue[] = []
    for (let index = 0; index < this.list.length; index += 1)
      if (this.list[index] !== undefined) keys.push(index + 1)
    if (this.map !== undefined) for (const key of this.map.keys()) keys.push(key)
    return keys
  }
}

/** Makes a table of listed values, and of keys each followed by its value. */
export function table(list: LuaValue[], fields: readonly LuaValue[]): LuaTable {
  const made = new LuaTable(list)
  if (fields.length === 0) return made
  for (let index = 0; index < fields.length; index += 2) made.set(fields[index], fields[index + 1])
  return made
}

export function typeOf(value: LuaValue): string {
  if (value === undefined) return 'nil'
  if (value instanceof LuaTable) return 'table'
  return value instanceof Packed ? 'string' : typeof value
}

function notTable(value: LuaValue): never {
  throw new LuaError(`attempt to index a ${typeOf(value)} value`)
}

export function get(of: LuaValue, key: LuaValue): LuaValue {
  return of instanceof LuaTable ? of.get(key) : notTable(of)
}

/** Reads a field whose key is a text. */
export function field(of: LuaValue, key: string): LuaValue {
  if (!(of instanceof LuaTable)) return notTable(of)
  return of.map === undefined ? undefined : of.map.get(key)
}

export function set(of: LuaValue, key: LuaValue, value: LuaValue): void {
  if (of instanceof LuaTable) of.set(key, value)
  else notTable(of)
}

export function one(result: LuaResult): LuaValue {
  return Array.isArray(result) ? result[0] : result
}

export function all(result: LuaResult): LuaValue[] {
  if (Array.isArray(result)) return result
  return result === undefined ? [] : [result]
}

/** The number of a text, or undefined. */
export function parseNumber(text: string): number | undefined {
  const value = Number(text)
  return text.trim() === '' || Number.isNaN(value) ? undefined : value
}

/** The operand of arithmetic: a number, or a text of one. */
export function num(value: LuaValue): number {
  if (typeof value === 'number') return value
  const parsed = typeof value === 'string' ? parseNumber(value) : undefined
  if (parsed === undefined) throw new LuaError(`attempt to perform arithmetic on a ${typeOf(value)} value`)
  return parsed
}

/** The operand of a comparison with a number. */
export function compared(value: LuaValue): number {
  if (typeof value === 'number') return value
  throw new LuaError(`attempt to compare a ${typeOf(value)} value with a number`)
}

export const mod = (a: number, b: number): number => a - Math.floor(a / b) * b

export function less(a: LuaValue, b: LuaValue): boolean {
  if (typeof a === 'number' && typeof b === 'number') return a < b
  if (typeof a === 'string' && typeof b === 'string') return a < b
  throw new LuaError(`attempt to compare ${typeOf(a)} with ${typeOf(b)}`)
}

export function lessOrEqual(a: LuaValue, b: LuaValue): boolean {
  if (typeof a === 'number' && typeof b === 'number') return a <= b
  if (typeof a === 'string' && typeof b === 'string') return a <= b
  throw new LuaError(`attempt to compare ${typeOf(a)} with ${typeOf(b)}`)
}

export const greater = (a: LuaValue, b: LuaValue): boolean => less(b, a)
export const greaterOrEqual = (a: LuaValue, b: LuaValue): boolean => lessOrEqual(b, a)

export function length(of: LuaValue): number {
  if (typeof of === 'string') return of.length
  if (of instanceof LuaTable) return of.list.length
  throw new LuaError(`attempt to get length of a ${typeOf(of)} value`)
}

/** A number as C writes it with `%.<digits>g`. */
export function formatNumber(value: number, digits: number): string {
  if (Number.isInteger(value) && Math.abs(value) < 1e14) return String(value)
  if (!Number.isFinite(value)) return Number.isNaN(value) ? '-nan' : value > 0 ? 'inf' : '-inf'
  const [mantissa = '', power = '0'] = value.toExponential(digits - 1).split('e')
  const exponent = Number(power)
  const short = (text: string): string => (text.includes('.') ? text.replace(/\.?0+$/, '') : text)
  if (exponent >= -4 && exponent < digits) return short(value.toFixed(digits - 1 - exponent))
  return `${short(mantissa)}e${exponent < 0 ? '-' : '+'}${String(Math.abs(exponent)).padStart(2, '0')}`
}

/** The operand of a concatenation, or an argument that is a text. */
export function text(value: LuaValue): string {
  if (typeof value === 'string') return value
  if (typeof value === 'number') return formatNumber(value, 14)
  throw new LuaError(`attempt to concatenate a ${typeOf(value)} value`)
}
