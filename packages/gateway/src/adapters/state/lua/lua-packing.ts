/** The bytes that cmsgpack and struct of Redis make of values. */
import { LuaError, LuaTable, type LuaValue, num, Packed, text, typeOf } from './lua-values.ts'

/** Copies a value as cmsgpack packs it and unpacks it again: a list with gaps becomes a map. */
function copied(value: LuaValue): LuaValue {
  if (!(value instanceof LuaTable)) return typeof value === 'function' ? undefined : value
  const { list, map } = value
  if ((map !== undefined && map.size > 0) || list.includes(undefined)) {
    const made = new LuaTable()
    for (const key of value.keys()) made.set(key, copied(value.get(key)))
    return made
  }
  const listed = list.slice()
  for (let index = 0; index < listed.length; index += 1)
    if (typeof listed[index] !== 'number') listed[index] = copied(listed[index])
  return new LuaTable(listed)
}

export function packed(...values: LuaValue[]): Packed {
  for (let index = 0; index < values.length; index += 1) values[index] = copied(values[index])
  return new Packed(values)
}

export function unpacked(of: LuaValue): LuaValue | LuaValue[] {
  if (!(of instanceof Packed)) throw new LuaError(`Bad data format in input: ${typeOf(of)}`)
  return of.values.length === 1 ? copied(of.values[0]) : of.values.map(copied)
}

/** Whole numbers of each kind of MessagePack: its first byte, and how many bytes follow. */
function packedInteger(value: number): Buffer {
  const bytes = Buffer.alloc(9)
  if (value >= 0) {
    if (value < 128) return Buffer.from([value])
    const [size, kind] =
      value < 2 ** 8 ? [1, 0xcc] : value < 2 ** 16 ? [2, 0xcd] : value < 2 ** 32 ? [4, 0xce] : [8, 0xcf]
    bytes[0] = kind
    if (size === 8) bytes.writeBigUInt64BE(BigInt(value), 1)
    else bytes.writeUIntBE(value, 1, size)
    return bytes.subarray(0, 1 + size)
  }
  if (value >= -32) return Buffer.from([256 + value])
  const [size, kind] =
    value >= -(2 ** 7)
      ? [1, 0xd0]
      : value >= -(2 ** 15)
        ? [2, 0xd1]
        : value >= -(2 ** 31)
          ? [4, 0xd2]
          : [8, 0xd3]
  bytes[0] = kind
  if (size === 8) bytes.writeBigInt64BE(BigInt(value), 1)
  else bytes.writeIntBE(value, 1, size)
  return bytes.subarray(0, 1 + size)
}

/** The first bytes of a text, a list or a map with so many members. */
function packedSize(
  size: number,
  kinds: readonly (readonly [below: number, first: number, bytes: number])[],
): Buffer {
  const [, first, bytes] = kinds.find(([below]) => size < below)!
  const head = Buffer.alloc(1 + bytes)
  if (bytes === 0) head[0] = first + size
  else {
    head[0] = first
    head.writeUIntBE(size, 1, bytes)
  }
  return head
}

const most = 2 ** 32
const textSizes = [
  [32, 0xa0, 0],
  [2 ** 8, 0xd9, 1],
  [2 ** 16, 0xda, 2],
  [most, 0xdb, 4],
] as const
const listSizes = [
  [16, 0x90, 0],
  [2 ** 16, 0xdc, 2],
  [most, 0xdd, 4],
] as const
const mapSizes = [
  [16, 0x80, 0],
  [2 ** 16, 0xde, 2],
  [most, 0xdf, 4],
] as const

/** The bytes of what was packed. A map has no order that two servers agree on: its members are sorted by their bytes. */
export function bytesOf(of: Packed): Buffer {
  return Buffer.concat(of.values.map(bytesOfValue))
}

function bytesOfValue(value: LuaValue): Buffer {
  if (value === undefined) return Buffer.from([0xc0])
  if (typeof value === 'boolean') return Buffer.from([value ? 0xc3 : 0xc2])
  if (typeof value === 'string') {
    const bytes = Buffer.from(value, 'latin1')
    return Buffer.concat([packedSize(bytes.length, textSizes), bytes])
  }
  if (typeof value === 'number') {
    if (Number.isInteger(value)) return packedInteger(value)
    const isFloat = Math.fround(value) === value
    const bytes = Buffer.alloc(isFloat ? 5 : 9)
    bytes[0] = isFloat ? 0xca : 0xcb
    if (isFloat) bytes.writeFloatBE(value, 1)
    else bytes.writeDoubleBE(value, 1)
    return bytes
  }
  const of = value as LuaTable
  const keys = of.keys()
  if (keys.length === of.list.length)
    return Buffer.concat([packedSize(keys.length, listSizes), ...of.list.map(bytesOfValue)])
  const members = keys.map((key) => Buffer.concat([bytesOfValue(key), bytesOfValue(of.get(key))]))
  return Buffer.concat([packedSize(keys.length, mapSizes), ...members.sort(Buffer.compare)])
}

/** The parts of a layout as `>I6I2`: unsigned whole numbers, big endian, and a character each `c`. */
interface Part {
  readonly isText: boolean
  readonly size: number
}

const layouts = new Map<string, readonly Part[]>()

function partsOf(layout: string): readonly Part[] {
  let parts = layouts.get(layout)
  if (parts === undefined) {
    if (!/^>(I[1-7]|c(?!\d))+$/.test(layout)) throw new Error(`the layout ${layout} is not known`)
    parts = layout
      .slice(1)
      .match(/I\d|c/g)!
      .map((part) => ({ isText: part === 'c', size: part === 'c' ? 1 : Number(part[1]) }))
    layouts.set(layout, parts)
  }
  return parts
}

export function packStruct(layout: LuaValue, ...values: LuaValue[]): string {
  let bytes = ''
  for (const [index, { isText, size }] of partsOf(text(layout)).entries()) {
    const value = values[index]
    if (isText) bytes += text(value).slice(0, size)
    else bytes += packedNumber(Math.trunc(num(value)), size)
  }
  return bytes
}

function packedNumber(value: number, size: number): string {
  // Numbers below zero wrap around.
  if (value < 0)
    return Buffer.from(
      BigInt.asUintN(8 * size, BigInt(value))
        .toString(16)
        .padStart(2 * size, '0'),
      'hex',
    ).toString('latin1')
  const high = Math.floor(value / 2 ** 24)
  const low = value % 2 ** 24
  let bytes = ''
  for (let at = size - 1; at >= 0; at -= 1)
    bytes += String.fromCharCode(
      at > 2 ? Math.floor(high / 2 ** (8 * (at - 3))) % 256 : (low >>> (8 * at)) & 255,
    )
  return bytes
}

export function unpackStruct(layout: LuaValue, of: LuaValue, from: LuaValue = 1): LuaValue[] {
  const bytes = text(of)
  let at = num(from) - 1
  const values: LuaValue[] = []
  for (const { isText, size } of partsOf(text(layout))) {
    if (at < 0 || at + size > bytes.length) throw new LuaError('data string too short')
    if (isText) values.push(bytes.slice(at, at + size))
    else {
      let value = 0
      for (let index = at; index < at + size; index += 1) value = value * 256 + bytes.charCodeAt(index)
      values.push(value)
    }
    at += size
  }
  values.push(at + 1)
  return values
}
