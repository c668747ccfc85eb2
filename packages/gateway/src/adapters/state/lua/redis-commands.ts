/**
 * The commands that the scripts call, over keys in memory, as Redis answers them to a script. Keys do not end by time, and
 * the time is not told: whoever runs scripts here gives them their instants.
 */
import type { Commands } from './lua-translate.ts'
import { formatNumber, LuaTable, type LuaValue, Packed } from './lua-values.ts'

type Text = string | Packed
/** Values by fields. */
export class Hash {
  readonly members: Map<string, Text>
  constructor(members: ReadonlyMap<string, Text> = new Map()) {
    this.members = new Map(members)
  }
}
/** Scores by members. */
class SortedSet {
  readonly members: Map<string, number>
  constructor(members: ReadonlyMap<string, number> = new Map()) {
    this.members = new Map(members)
  }
}
export type Keys = Map<string, Text | Hash | SortedSet>

const ok = new Map<LuaValue, LuaValue>([['ok', 'OK']])

/** An argument of a command: Redis writes numbers with all their digits. */
function argument(value: LuaValue): Text {
  if (typeof value === 'string' || value instanceof Packed) return value
  if (typeof value === 'number') return Number.isInteger(value) ? String(value) : formatNumber(value, 17)
  throw new Error('Lua redis lib command arguments must be strings or integers')
}

/** Bytes that a script handles as such. */
function textOf(value: Text | undefined): string {
  if (value instanceof Packed) throw new Error('what was packed is not read as a text')
  return value ?? ''
}
const plain = (value: LuaValue): string => textOf(argument(value))

function bound(value: LuaValue): { readonly score: number; readonly isOpen: boolean } {
  const text = plain(value)
  const isOpen = text.startsWith('(')
  const digits = isOpen ? text.slice(1) : text
  const score = digits.endsWith('inf') ? Number(`${digits.replace('inf', 'Infinity')}`) : Number(digits)
  return { score, isOpen }
}

const whole = (value: LuaValue): number => Number(plain(value))
function copyOf(value: Text | Hash | SortedSet): Text | Hash | SortedSet {
  if (value instanceof Hash) return new Hash(value.members)
  return value instanceof SortedSet ? new SortedSet(value.members) : value
}

/** Copies keys, so that neither server sees what the other one writes. */
export function copyKeys(keys: Keys): Keys {
  return new Map([...keys].map(([key, value]) => [key, copyOf(value)]))
}

/** @param keysOf answers the keys of the server that is asked */
export function createCommands(keysOf: () => Keys): Commands {
  const wrongType = (): never => {
    throw new Error('WRONGTYPE Operation against a key holding the wrong kind of value')
  }
  function stringAt(key: LuaValue): Text | undefined {
    const value = keysOf().get(plain(key))
    return value instanceof Hash || value instanceof SortedSet ? wrongType() : value
  }
  function hashAt(key: LuaValue): Map<string, Text> | undefined {
    const value = keysOf().get(plain(key))
    if (value instanceof Hash) return value.members
    return value === undefined ? undefined : wrongType()
  }
  function setAt(key: LuaValue): Map<string, number> | undefined {
    const value = keysOf().get(plain(key))
    if (value instanceof SortedSet) return value.members
    return value === undefined ? undefined : wrongType()
  }
  const remove = (...keys: LuaValue[]): number => keys.filter((key) => keysOf().delete(plain(key))).length
  function removeFrom(of: Map<string, unknown> | undefined, key: LuaValue, members: LuaValue[]): number {
    if (of === undefined) return 0
    const removed = members.filter((each) => of.delete(plain(each))).length
    // A collection that is empty is no key.
    if (of.size === 0) keysOf().delete(plain(key))
    return removed
  }
  function inRange(
    of: ReadonlyMap<string, number> = new Map(),
    least: LuaValue,
    most: LuaValue,
  ): [string, number][] {
    const [from, to] = [bound(least), bound(most)]
    return [...of]
      .filter(([, score]) => (from.isOpen ? score > from.score : score >= from.score))
      .filter(([, score]) => (to.isOpen ? score < to.score : score <= to.score))
      .sort(([a, one], [b, other]) => one - other || (a < b ? -1 : 1))
  }
  const existing = (keys: LuaValue[]): number => keys.filter((key) => keysOf().has(plain(key))).length

  return {
    APPEND(key, value) {
      const text = textOf(stringAt(key)) + plain(value)
      keysOf().set(plain(key), text)
      return text.length
    },
    DEL: remove,
    UNLINK: remove,
    EXISTS: (...keys) => existing(keys),
    GET: (key) => stringAt(key) ?? false,
    GETRANGE(key, from, to) {
      const text = textOf(stringAt(key))
      const place = (at: number): number => (at < 0 ? Math.max(0, text.length + at) : at)
      return text.slice(place(whole(from)), place(whole(to)) + 1)
    },
    HDEL: (key, ...fields) => removeFrom(hashAt(key), key, fields),
    HEXISTS: (key, field) => (hashAt(key)?.has(plain(field)) ? 1 : 0),
    HGET: (key, field) => hashAt(key)?.get(plain(field)) ?? false,
    HGETALL: (key) => new LuaTable([...(hashAt(key) ?? [])].flat()),
    HKEYS: (key) => new LuaTable([...(hashAt(key)?.keys() ?? [])]),
    HLEN: (key) => hashAt(key)?.size ?? 0,
    HMGET: (key, ...fields) => new LuaTable(fields.map((each) => hashAt(key)?.get(plain(each)) ?? false)),
    // Redis picks them by chance.
    HRANDFIELD: (key, count) => new LuaTable([...(hashAt(key) ?? [])].slice(0, whole(count)).flat()),
    HSET(key, ...pairs) {
      let hash = hashAt(key)
      if (hash === undefined) {
        const made = new Hash()
        keysOf().set(plain(key), made)
        hash = made.members
      }
      const before = hash.size
      for (let index = 0; index < pairs.length; index += 2)
        hash.set(plain(pairs[index]), argument(pairs[index + 1]))
      return hash.size - before
    },
    PEXPIRE: () => 1,
    PTTL: (key) => (existing([key]) === 1 ? -1 : -2),
    SET(key, value) {
      keysOf().set(plain(key), argument(value))
      return new LuaTable([], ok)
    },
    SETRANGE(key, at, value) {
      const before = textOf(stringAt(key)).padEnd(whole(at), '\0')
      const own = plain(value)
      keysOf().set(plain(key), before.slice(0, whole(at)) + own + before.slice(whole(at) + own.length))
      return Math.max(before.length, whole(at) + own.length)
    },
    STRLEN: (key) => textOf(stringAt(key)).length,
    TYPE(key) {
      const value = keysOf().get(plain(key))
      const kind = value instanceof SortedSet ? 'zset' : value instanceof Hash ? 'hash' : 'string'
      return new LuaTable([], new Map([['ok', value === undefined ? 'none' : kind]]))
    },
    ZADD(key, ...given) {
      const isNew = given[0] === 'NX'
      const [score, member] = isNew ? given.slice(1) : given
      let set = setAt(key)
      if (set === undefined) {
        const made = new SortedSet()
        keysOf().set(plain(key), made)
        set = made.members
      }
      const before = set.size
      if (!isNew || !set.has(plain(member))) set.set(plain(member), bound(score).score)
      return set.size - before
    },
    ZRANGEBYSCORE(key, least, most, ...limit) {
      const found = inRange(setAt(key), least, most).map(([member]) => member)
      const from = limit.length > 0 ? whole(limit[1]) : 0
      return new LuaTable(limit.length > 0 ? found.slice(from, from + whole(limit[2])) : found)
    },
    ZREM: (key, ...members) => removeFrom(setAt(key), key, members),
    ZREMRANGEBYSCORE(key, least, most) {
      const set = setAt(key)
      return removeFrom(
        set,
        key,
        inRange(set, least, most).map(([member]) => member),
      )
    },
    ZSCORE(key, member) {
      const score = setAt(key)?.get(plain(member))
      return score === undefined ? false : formatNumber(score, 17)
    },
  }
}
