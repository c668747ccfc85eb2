/**
 * The server of limiter state that the processes of a run share. The scripts run on a real Redis, in virtual time; their
 * keys have a prefix, so that a server that has lost everything is one with another prefix. Registration, the end of a
 * life and a deposed master that still answers stand here as redis-server.ts meets them.
 */
import { createClient } from '@redis/client'
import { type Reply, unavailable } from '../../src/adapters/state/redis/redis-server.ts'
import type { RedisState } from '../../src/adapters/state/redis/redis-state.ts'
import { onceScript, type Script, scripts } from '../../src/adapters/state/redis/scripts.ts'
import type { Registrations } from '../../src/ports/limiter.ts'
import type { Faults, PortTerms } from './faults.ts'
import type { SimProcess } from './process.ts'
import { wired } from './wires.ts'
import type { World } from './world.ts'

const node = 'redis:6379'
/** The longest time that most questions may take, ms: `state.deadlineMs`. */
const deadlineMs = 50
/** A connection that cannot be made is tried again after this, ms. */
const retryMs = 5
const terms: PortTerms = {
  usualMs: 1,
  requestMsMax: 300,
  answerMsMax: 300,
  mayBeRefused: true,
  mayBeLost: true,
}

/** One life of the server: its keys begin with the prefix. */
interface Life {
  readonly name: string
  prefix: string
  /** Connections to a life that has ended are lost at this instant. */
  endsAt: number
}

export interface SimServer {
  connect(process: SimProcess, faults: Faults, registrations: Registrations): RedisState
  /** Removes all keys, under the same life. */
  flush(): void
  /** Takes the server away for a while; it comes back without its keys, in another life. */
  restart(downMs: number): void
  /**
   * Puts a replica in its place that lacks the last writes. Processes that are still connected go on with the deposed
   * server for a while, and it answers them.
   */
  failOver(lostMs: number, deposedMs: number): void
  /** Removes the keys of the run. */
  close(): Promise<void>
}

const copyKeys = `for _, key in ipairs(redis.call('KEYS', ARGV[1] .. '*')) do
  redis.call('COPY', key, ARGV[2] .. string.sub(key, #ARGV[1] + 1), 'REPLACE') end`
const removeKeys = `for _, key in ipairs(redis.call('KEYS', ARGV[1] .. '*')) do redis.call('UNLINK', key) end`
/** Without a time limit: the one of the client makes a signal of Node and a timer for each command, a tenth of a run. */
const commandOptions = { timeout: 0 }
/** Makes the client answer bulk strings, whose type is `$` in RESP, as bytes. */
const bytesMapping = { typeMapping: { 36: Buffer } }

/** Redis counts the life of a key in real time. The scripts count their own times by the virtual one. */
const withoutExpiry = `local native = redis
local redis = setmetatable({ call = function(name, ...)
  if name == 'PEXPIRE' then return 1 end
  if name ~= 'SET' then return native.call(name, ...) end
  local key, value = ...
  return native.call('SET', key, value)
end }, { __index = native })
`
/** The scripts as they are loaded for the runs. */
const shas = new Map<Script, string>()

/** The connection to the real Redis, one for all runs of this process of Node. */
let shared: Promise<(args: readonly string[], inBytes?: boolean) => Promise<Reply>> | undefined
let closeShared: () => void = () => {}
let runs = 0

async function openShared(url: string) {
  // A socket of the file system costs half of what loopback does.
  const client = url.startsWith('/')
    ? createClient({ socket: { path: url, tls: false }, RESP: 2, commandOptions })
    : createClient({ url, RESP: 2, commandOptions })
  client.on('error', () => {})
  await client.connect()
  closeShared = () => client.destroy()
  const send = (args: readonly string[], inBytes = false): Promise<Reply> =>
    client.sendCommand<Reply>([...args], inBytes ? bytesMapping : undefined)
  for (const script of scripts) {
    const sha = await send(['SCRIPT', 'LOAD', withoutExpiry + script.text])
    shas.set(script, String(sha))
  }
  return send
}

/** Ends the connection to the real Redis, behind all runs. */
export function closeServer(): void {
  closeShared()
  shared = undefined
}

export async function openServer(world: World, url: string): Promise<SimServer> {
  shared ??= openShared(url)
  const send = await shared
  runs += 1
  const runPrefix = `sim:${process.pid}:${runs}:`
  let lives = 0
  const newLife = (): Life => {
    lives += 1
    return { name: `life-${lives}`, prefix: `${runPrefix}${lives}:`, endsAt: Number.POSITIVE_INFINITY }
  }
  let life = newLife()
  let downUntil = 0

  /** Ends the marks of requests in progress whose lease is over: Redis counts it in real time. */
  function lapse(key: string, leaseMs: number, owner: string): void {
    world.at(world.now() + leaseMs, () => {
      const isOver = (leases.get(key)?.until ?? 0) <= world.now()
      if (!isOver || leases.get(key)?.owner !== owner) return
      leases.delete(key)
      void world.outside(send(['UNLINK', key]))
    })
  }
  const leases = new Map<string, { readonly owner: string; readonly until: number }>()

  function connect(process: SimProcess, faults: Faults, registrations: Registrations): RedisState {
    let standing: { readonly life: Life; readonly number: number } | undefined
    let registering: Promise<void> | undefined
    let expected = 0
    /** A process that is still connected to a deposed server is so until the connection ends. */
    const isOver = (of: Life): boolean => of.endsAt <= world.now()

    async function register(): Promise<void> {
      if (world.now() < downUntil) throw new Error('the server is away')
      const met = life
      const number = await registrations.register({ node, runId: met.name, replicationId: met.name })
      if (number < expected) throw new Error('another life is registered')
      if (!isOver(met)) standing = { life: met, number }
    }

    /** Runs a script where the caller still waits, in the life in which the caller believes. */
    async function run(
      of: { readonly life: Life; readonly number: number },
      script: Script,
      keys: readonly string[],
      args: readonly string[],
      endsAt: number,
    ): Promise<Reply> {
      if (isOver(of.life) || world.now() > endsAt) throw unavailable(node, 'the connection was lost')
      const full = keys.map((key) => of.life.prefix + key)
      const virtual = [String(of.number), String(world.now()), '0', '0', '0']
      if (script === onceScript && args[0] !== 'end') {
        leases.set(full[0]!, { owner: args[1]!, until: world.now() + Number(args[3]) })
        lapse(full[0]!, Number(args[3]), args[1]!)
      }
      const command = ['EVALSHA', shas.get(script)!, String(full.length), ...full, ...virtual, ...args]
      return await world.outside(send(command, script.inBytes))
    }

    const server = wired({
      name: 'redis',
      process,
      faults,
      port: { run },
      terms,
      code: 'STATE_UNAVAILABLE',
      direct: [],
      isInOrder: () => true,
    })

    async function ask(script: Script, keys: readonly string[], args: readonly string[], endsAt: number) {
      while (standing === undefined || isOver(standing.life)) {
        standing = undefined
        registering ??= register().finally(() => {
          registering = undefined
        })
        try {
          await registering
        } catch {
          if (world.now() >= endsAt) throw unavailable(node, 'it is away')
          await new Promise((resolve) => setTimeout(resolve, retryMs))
        }
      }
      const asked = standing
      const reply = await server.run(asked, script, keys, args, endsAt)
      // As `INFO replication` at the end of each round: an answer counts in a life that goes on.
      if (isOver(asked.life)) throw unavailable(node, 'the server has changed its role')
      if (standing !== asked) throw unavailable(node, 'the connection was ended')
      return reply
    }

    return {
      deadlineMs,
      ask(script, { subject, name, others = [] }, args, withinMs = deadlineMs) {
        const place = `{${subject.replaceAll('}', ')')}}`
        const keys = [place + name, ...others.map((other) => place + other)]
        const endsAt = world.now() + withinMs
        return new Promise((resolve, reject) => {
          const timer = setTimeout(
            () => reject(unavailable(node, 'no answer in time')),
            Math.max(0, withinMs),
          )
          ask(script, keys, args, endsAt)
            .then(resolve, reject)
            .finally(() => clearTimeout(timer))
        })
      },
      expect(servers) {
        const number = servers.get(node) ?? 0
        expected = Math.max(expected, number)
        if (standing !== undefined && standing.number < expected) standing = undefined
      },
      close() {},
    }
  }

  return {
    connect,
    flush() {
      world.trace({ kind: 'flush' })
      lives += 1
      life.prefix = `${runPrefix}${lives}:`
    },
    restart(downMs) {
      world.trace({ kind: 'redis restarts', downMs })
      life.endsAt = world.now()
      downUntil = world.now() + downMs
      life = newLife()
    },
    failOver(lostMs, deposedMs) {
      const old = life
      const next = newLife()
      void world.outside(send(['EVAL', copyKeys, '0', old.prefix, next.prefix]))
      world.at(world.now() + lostMs, () => {
        if (life !== old) return
        world.trace({ kind: 'redis fails over', lostMs, deposedMs })
        old.endsAt = world.now() + deposedMs
        life = next
      })
    },
    async close() {
      await send(['EVAL', removeKeys, '0', runPrefix])
    },
  }
}
