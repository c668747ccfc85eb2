/**
 * Asks two servers of scripts the same, the process itself and a real Redis, and holds their answers against each other, and
 * all their keys at the end. A difference is an error of the translation, or of the commands in memory.
 */
import assert from 'node:assert/strict'
import { isDeepStrictEqual } from 'node:util'
import { createClient } from '@redis/client'
import { encodeJson } from '../../src/adapters/state/lua/lua-json.ts'
import { bytesOf, unpacked } from '../../src/adapters/state/lua/lua-packing.ts'
import { one, Packed } from '../../src/adapters/state/lua/lua-values.ts'
import { Hash, type Keys } from '../../src/adapters/state/lua/redis-commands.ts'
import type { Reply } from '../../src/adapters/state/redis/redis-answers.ts'
import { createScriptServer, openRedisScriptServer, type ScriptServer } from './script-servers.ts'

export interface TwinScripts extends ScriptServer {
  /** Questions that were compared. */
  asked(): number
  /** Compares all keys; returns how many there were. Throws also if an answer differed. */
  compareKeys(prefix: string): Promise<number>
  close(): void
}

type Answer = Reply | { readonly error: string }
type Raw = Buffer | readonly Raw[]

export async function openTwinScripts(url: string): Promise<TwinScripts> {
  const own = createScriptServer()
  const redis = await openRedisScriptServer(url)
  const client = createClient({ socket: { path: url, tls: false }, RESP: 2 })
  await client.connect()
  const raw = <T extends Raw>(...args: readonly string[]): Promise<T> =>
    client.sendCommand<T>([...args], { typeMapping: { 36: Buffer } })
  let asked = 0
  /** The gateway that asks would take an error for a server that is away: they are told with the keys. */
  const differences: string[] = []

  /** A text as the real Redis has it; of what was packed the values, where a map has no order of its own. */
  async function assertSame(
    found: Buffer | undefined,
    expected: string | Packed,
    where: string,
  ): Promise<void> {
    const bytes = expected instanceof Packed ? bytesOf(expected) : Buffer.from(expected, 'latin1')
    if (found?.equals(bytes)) return
    assert.ok(found !== undefined, `${where} is there`)
    if (!(expected instanceof Packed)) return assert.deepEqual(inOrder(found), inOrder(bytes), where)
    const unpack = 'return cjson.encode(cmsgpack.unpack(ARGV[1]))'
    const json = await client.sendCommand<string>(['EVAL', unpack, '0', found])
    assert.deepEqual(JSON.parse(json), JSON.parse(encodeJson(one(unpacked(expected)))), where)
  }

  async function compareSpace(space: string, keys: Keys): Promise<void> {
    const prefix = redis.prefix + space
    const names = (await raw<Buffer[]>('KEYS', `${prefix}*`)).map((name) => name.toString('latin1'))
    const expected = [...keys.keys()].map((name) => Buffer.from(prefix).toString('latin1') + name)
    assert.deepEqual(names.sort(), expected.sort())
    for (const [name, value] of keys) {
      const key = prefix + Buffer.from(name, 'latin1').toString()
      if (typeof value === 'string' || value instanceof Packed) {
        await assertSame(await raw<Buffer>('GET', key), value, key)
        continue
      }
      const isHash = value instanceof Hash
      const flat = await raw<Buffer[]>(
        ...(isHash ? ['HGETALL', key] : ['ZRANGE', key, '0', '-1', 'WITHSCORES']),
      )
      const found = new Map(
        flat.flatMap((each, index) => (index % 2 === 0 ? [[each.toString('latin1'), flat[index + 1]!]] : [])),
      )
      assert.deepEqual([...found.keys()].sort(), [...value.members.keys()].sort(), key)
      for (const [member, each] of value.members) {
        const own = found.get(member)
        if (typeof each === 'number') assert.equal(Number(String(own).replace('inf', 'Infinity')), each)
        else await assertSame(own, each, `${key} ${member}`)
      }
    }
  }

  async function compareKeys(prefix: string): Promise<number> {
    assert.deepEqual(differences, [])
    let compared = 0
    for (const [space, keys] of own.spaces) {
      if (!space.startsWith(prefix)) continue
      await compareSpace(space, keys)
      compared += keys.size
    }
    return compared
  }

  const failing = async (work: () => Promise<Reply>): Promise<Answer> =>
    work().catch((error: Error) => ({ error: error.message.replace(/ script: .*$/, '') }))

  return {
    asked: () => asked,
    compareKeys,
    async run(space, script, keys, args) {
      asked += 1
      const mine = failing(() => own.run(space, script, keys, args))
      const theirs = failing(() => redis.run(space, script, keys, args))
      const [answer, expected] = await Promise.all([mine, theirs])
      if (isDeepStrictEqual(answer, expected)) return await redisAnswer(expected)
      if (!isDeepStrictEqual(canonical(answer), canonical(expected)))
        differences.push(
          `${keys[0]} ${JSON.stringify(args)}: ${JSON.stringify(answer)}, not ${JSON.stringify(expected)}`,
        )
      return await redisAnswer(expected)
    },
    async copy(from, to) {
      await Promise.all([own.copy(from, to), redis.copy(from, to)])
    },
    async remove(space, key) {
      await Promise.all([own.remove(space, key), redis.remove(space, key)])
    },
    async removeAll(prefix) {
      await compareKeys(prefix)
      await Promise.all([own.removeAll(prefix), redis.removeAll(prefix)])
    },
    close() {
      redis.close()
      client.destroy()
    },
  }
}

/** The ids of a subject, which begin with this byte, stand in the order of a table of Lua, which is none. */
const idBegins = '\xff'
const inOrder = (bytes: Buffer): readonly string[] => bytes.toString('latin1').split(idBegins).sort()

/** An answer without the orders of tables of Lua: those of ids, and of a list of rows in JSON. */
function canonical(answer: Answer): unknown {
  if (Array.isArray(answer)) return answer.map((each: Reply) => canonical(each))
  if (!Buffer.isBuffer(answer)) return answer
  if (!answer.toString().startsWith('[[')) return inOrder(answer)
  return (JSON.parse(answer.toString()) as readonly unknown[]).map((row) => JSON.stringify(row)).sort()
}

async function redisAnswer(answered: Answer): Promise<Reply> {
  if (typeof answered === 'object' && answered !== null && 'error' in answered)
    throw new Error(answered.error)
  return answered
}
