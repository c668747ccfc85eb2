/**
 * Who runs the scripts of the limits in the simulator: this process itself, on their translation (src/adapters/state/lua), or a real Redis.
 * Both answer the same, which script-servers.test.ts holds them to. Keys lie under names of spaces; a server that has lost
 * everything is one with another space. Scripts count their own times by the virtual one, so no key ends by the server's.
 */
import { createClient } from '@redis/client'
import { copyKeys, type Keys } from '../../src/adapters/state/lua/redis-commands.ts'
import { runScript } from '../../src/adapters/state/lua/script-runner.ts'
import type { Reply } from '../../src/adapters/state/redis/redis-answers.ts'
import { type Script, scripts } from '../../src/adapters/state/redis/scripts.ts'

export interface ScriptServer {
  run(space: string, script: Script, keys: readonly string[], args: readonly string[]): Promise<Reply>
  /** Copies the keys of one space to another one. */
  copy(from: string, to: string): Promise<void>
  remove(space: string, key: string): Promise<void>
  /** Removes all keys whose space begins so. */
  removeAll(prefix: string): Promise<void>
}

/** Runs the scripts in this process. */
export function createScriptServer(): ScriptServer & { readonly spaces: ReadonlyMap<string, Keys> } {
  const spaces = new Map<string, Keys>()
  function keysOf(space: string): Keys {
    let keys = spaces.get(space)
    if (keys === undefined) {
      keys = new Map()
      spaces.set(space, keys)
    }
    return keys
  }
  return {
    spaces,
    run: async (space, script, keys, args) => runScript(keysOf(space), script, keys, args),
    async copy(from, to) {
      spaces.set(to, copyKeys(keysOf(from)))
    },
    async remove(space, key) {
      keysOf(space).delete(key)
    },
    async removeAll(prefix) {
      for (const space of [...spaces.keys()]) if (space.startsWith(prefix)) spaces.delete(space)
    },
  }
}

const copyKeysScript = `for _, key in ipairs(redis.call('KEYS', ARGV[1] .. '*')) do
  redis.call('COPY', key, ARGV[2] .. string.sub(key, #ARGV[1] + 1), 'REPLACE') end`
const removeKeysScript = `for _, key in ipairs(redis.call('KEYS', ARGV[1] .. '*')) do redis.call('UNLINK', key) end`
/** Without a time limit: the one of the client makes a signal of Node and a timer for each command, a tenth of a run. */
const commandOptions = { timeout: 0 }
/** Makes the client answer bulk strings, whose type is `$` in RESP, as bytes. */
const bytesMapping = { typeMapping: { 36: Buffer } }

/** Redis counts the life of a key in real time. */
const withoutExpiry = `local native = redis
local redis = setmetatable({ call = function(name, ...)
  if name == 'PEXPIRE' then return 1 end
  if name ~= 'SET' then return native.call(name, ...) end
  local key, value = ...
  return native.call('SET', key, value)
end }, { __index = native })
`

/** A real Redis, which may be shared: its spaces begin with the number of this process. */
export interface RedisScriptServer extends ScriptServer {
  /** Precedes the names of all spaces. */
  readonly prefix: string
  close(): void
}

/** @param url of a Redis, or the path of its socket, which costs half of what loopback does */
export async function openRedisScriptServer(url: string): Promise<RedisScriptServer> {
  const client = url.startsWith('/')
    ? createClient({ socket: { path: url, tls: false }, RESP: 2, commandOptions })
    : createClient({ url, RESP: 2, commandOptions })
  client.on('error', () => {})
  await client.connect()
  const send = (args: readonly string[], inBytes = false): Promise<Reply> =>
    client.sendCommand<Reply>([...args], inBytes ? bytesMapping : undefined)
  const shas = new Map<Script, string>()
  for (const script of scripts)
    shas.set(script, String(await send(['SCRIPT', 'LOAD', withoutExpiry + script.text])))
  const own = `sim:${process.pid}:`
  return {
    prefix: own,
    run(space, script, keys, args) {
      const full = keys.map((key) => own + space + key)
      return send(['EVALSHA', shas.get(script)!, String(full.length), ...full, ...args], script.inBytes)
    },
    async copy(from, to) {
      await send(['EVAL', copyKeysScript, '0', own + from, own + to])
    },
    async remove(space, key) {
      await send(['UNLINK', own + space + key])
    },
    async removeAll(prefix) {
      await send(['EVAL', removeKeysScript, '0', own + prefix])
    },
    close: () => client.destroy(),
  }
}
