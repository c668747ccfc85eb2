/** The functions that Redis gives to scripts, by their paths, as far as our scripts call them. */
import { decodeJson, encodeJson } from './lua-json.ts'
import { packed, packStruct, unpacked, unpackStruct } from './lua-packing.ts'
import { type Match, matches } from './lua-pattern.ts'
import {
  formatNumber,
  LuaError,
  type LuaFunction,
  type LuaResult,
  LuaTable,
  type LuaValue,
  less,
  num,
  one,
  parseNumber,
  text,
  typeOf,
} from './lua-values.ts'

/** The table in which a script reads an error of Redis. */
const errorTable = (message: string): LuaTable => new LuaTable([], new Map([['err', message]]))

/** True for what a condition takes as true. */
const isTrue = (value: LuaValue): boolean => value !== undefined && value !== false

function listOf(value: LuaValue): LuaTable {
  if (value instanceof LuaTable) return value
  throw new LuaError(`bad argument (table expected, got ${typeOf(value)})`)
}

/** The offset of the first character and of the one behind the last, of places as Lua counts them. */
function range(size: number, from: number, to: number): [from: number, to: number] {
  const first = from < 0 ? size + from : from - 1
  return [Math.max(0, first), Math.min(size, to < 0 ? size + to + 1 : to)]
}

function sub(of: LuaValue, from: LuaValue, to: LuaValue = -1): string {
  const whole = text(of)
  const [first, end] = range(whole.length, Math.trunc(num(from)), Math.trunc(num(to)))
  return whole.slice(first, Math.max(first, end))
}

function byte(of: LuaValue, from: LuaValue = 1, to?: LuaValue): LuaResult {
  const whole = text(of)
  const [first, end] = range(whole.length, num(from), to === undefined ? num(from) : num(to))
  if (to === undefined) return first < end ? whole.charCodeAt(first) : undefined
  const codes: number[] = []
  for (let index = first; index < end; index += 1) codes.push(whole.charCodeAt(index))
  return codes
}

function find(of: LuaValue, pattern: LuaValue, from: LuaValue = 1, isPlain?: LuaValue): LuaResult {
  const whole = text(of)
  const sought = text(pattern)
  const start = Math.max(0, num(from) < 0 ? whole.length + num(from) : num(from) - 1)
  if (isTrue(isPlain)) {
    const at = start > whole.length ? -1 : whole.indexOf(sought, start)
    return at < 0 ? undefined : [at + 1, at + sought.length]
  }
  const found = matches(whole, sought, start)[0]
  return found && [found.at + 1, found.at + found.all.length, ...found.captures]
}

const shown = ({ all, captures }: Match): LuaValue[] => (captures.length > 0 ? captures : [all])

function replaced(of: LuaValue, pattern: LuaValue, by: LuaValue): LuaResult {
  const whole = text(of)
  const parts: string[] = []
  let from = 0
  const found = matches(whole, text(pattern), 0)
  for (const each of found) {
    parts.push(whole.slice(from, each.at))
    const own = typeof by === 'function' ? one(by(...shown(each))) : text(by)
    parts.push(isTrue(own) ? text(own) : each.all)
    from = each.at + each.all.length
  }
  return [parts.join('') + whole.slice(from), found.length]
}

function format(pattern: LuaValue, ...values: LuaValue[]): string {
  let next = 0
  return text(pattern).replace(/%(0?)(\d*)(?:\.(\d+))?([dfsx%])/g, (_, zero, width, digits, kind) => {
    if (kind === '%') return '%'
    const value = values[next]
    next += 1
    let own: string
    if (kind === 's') own = text(value)
    else if (kind === 'f') own = num(value).toFixed(digits === undefined ? 6 : Number(digits))
    else own = Math.trunc(num(value)).toString(kind === 'x' ? 16 : 10)
    return own.padStart(Number(width), zero === '' ? ' ' : '0')
  })
}

function insert(of: LuaValue, ...rest: LuaValue[]): undefined {
  const { list } = listOf(of)
  if (rest.length === 1) return void listOf(of).set(list.length + 1, rest[0])
  const at = num(rest[0])
  if (at < 1 || at > list.length + 1) throw new LuaError('wrong position of table.insert')
  list.splice(at - 1, 0, rest[1])
}

function remove(of: LuaValue, at?: LuaValue): LuaValue {
  const { list } = listOf(of)
  const place = at === undefined ? list.length : num(at)
  return place < 1 || place > list.length ? undefined : list.splice(place - 1, 1)[0]
}

function sort(of: LuaValue, isBefore: LuaValue = less as LuaFunction): undefined {
  const precedes = isBefore as LuaFunction
  listOf(of).list.sort((a, b) => (isTrue(one(precedes(a, b))) ? -1 : isTrue(one(precedes(b, a))) ? 1 : 0))
}

function protectedCall(work: LuaValue, ...args: LuaValue[]): LuaValue[] {
  try {
    const answered = (work as LuaFunction)(...args)
    return [true, ...(Array.isArray(answered) ? answered : [answered])]
  } catch (error) {
    return [false, (error as Error).message]
  }
}

export const library = {
  'cjson.decode': (of: LuaValue) => decodeJson(text(of)),
  'cjson.encode': encodeJson,
  'cmsgpack.pack': packed,
  'cmsgpack.unpack': unpacked,
  'struct.pack': packStruct,
  'struct.unpack': unpackStruct,
  'unpack one': (layout: LuaValue, of: LuaValue, at: LuaValue) => unpackStruct(layout, of, at)[0],
  'math.abs': (value: LuaValue) => Math.abs(num(value)),
  'math.ceil': (value: LuaValue) => Math.ceil(num(value)),
  'math.floor': (value: LuaValue) => Math.floor(num(value)),
  'math.max': (first: LuaValue, ...rest: LuaValue[]) =>
    rest.reduce<number>((most, each) => Math.max(most, num(each)), num(first)),
  'math.min': (first: LuaValue, ...rest: LuaValue[]) =>
    rest.reduce<number>((least, each) => Math.min(least, num(each)), num(first)),
  'string.byte': byte,
  'string.char': (...codes: LuaValue[]) => String.fromCharCode(...codes.map(num)),
  'string.find': find,
  'string.format': format,
  'string.gmatch': (of: LuaValue, pattern: LuaValue) => matches(text(of), text(pattern), 0).map(shown),
  'string.gsub': replaced,
  'string.match'(of: LuaValue, pattern: LuaValue): LuaResult {
    const found = matches(text(of), text(pattern), 0, 1)[0]
    return found && shown(found)
  },
  'string.rep': (of: LuaValue, times: LuaValue) => text(of).repeat(Math.max(0, num(times))),
  'string.sub': sub,
  'table.concat': (of: LuaValue, between: LuaValue = '') => listOf(of).list.map(text).join(text(between)),
  'table.insert': insert,
  'table.remove': remove,
  'table.sort': sort,
  'redis.error_reply': (message: LuaValue) => errorTable(text(message)),
  'redis.pcall'(work: () => LuaValue): LuaValue {
    try {
      return work()
    } catch (error) {
      return errorTable((error as Error).message)
    }
  },
  error(message: LuaValue): never {
    throw new LuaError(text(message))
  },
  ipairs: listOf,
  keys: (of: LuaValue) => listOf(of).keys(),
  next(of: LuaValue, key: LuaValue): LuaValue {
    if (key !== undefined) throw new Error('next with a key is not translated')
    return listOf(of).keys()[0]
  },
  pairs: listOf,
  pcall: protectedCall,
  tonumber: (value: LuaValue) =>
    typeof value === 'number' ? value : typeof value === 'string' ? parseNumber(value) : undefined,
  tostring: (value: LuaValue) => (typeof value === 'number' ? formatNumber(value, 14) : String(value)),
  type: typeOf,
  unpack: (of: LuaValue) => [...listOf(of).list],
}

/** Functions of the library that answer one value. */
export const single: ReadonlySet<string> = new Set([
  ...Object.keys(library).filter((path) => /^(math|table|cjson)\./.test(path)),
  ...['cmsgpack.pack', 'struct.pack', 'string.char', 'string.format', 'string.rep', 'string.sub', 'next'],
  ...['redis.error_reply', 'tonumber', 'tostring', 'type', 'unpack one', 'ipairs', 'pairs'],
])
