/**
 * The server of limiter state that the processes of a run share. The scripts run in virtual time (script-servers.ts); a
 * server that has lost everything is one with another space of keys. Registration, the end of a life and a deposed master
 * that still answers stand here as redis-server.ts meets them.
 */
import { type Reply, unavailable } from '../../src/adapters/state/redis/redis-answers.ts'
import type { RedisState } from '../../src/adapters/state/redis/redis-state.ts'
import { onceScript, type Script } from '../../src/adapters/state/redis/scripts.ts'
import type { Registrations } from '../../src/ports/limiter.ts'
import type { Faults, PortTerms } from './faults.ts'
import type { SimProcess } from './process.ts'
import type { ScriptServer } from './script-servers.ts'
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

/** One life of the server: its keys lie in this space. */
interface Life {
  readonly name: string
  space: string
  /** Connections to a life that has ended are lost at this instant. */
  endsAt: number
  /** The one process that stays connected until then; absent: all do. */
  only?: SimProcess | undefined
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
   *
   * @param only the one process that stays connected
   */
  failOver(lostMs: number, deposedMs: number, only?: SimProcess): void
  /** Removes the keys of the run. */
  close(): Promise<void>
}

let runs = 0

export function openServer(world: World, scripts: ScriptServer): SimServer {
  runs += 1
  const runPrefix = `${runs}:`
  let lives = 0
  const newLife = (): Life => {
    lives += 1
    return { name: `life-${lives}`, space: `${runPrefix}${lives}:`, endsAt: Number.POSITIVE_INFINITY }
  }
  let life = newLife()
  let downUntil = 0

  /** Ends the marks of requests in progress whose lease is over: Redis counts it in real time. */
  function lapse(space: string, key: string, leaseMs: number, owner: string): void {
    world.at(world.now() + leaseMs, () => {
      const isOver = (leases.get(space + key)?.until ?? 0) <= world.now()
      if (!isOver || leases.get(space + key)?.owner !== owner) return
      leases.delete(space + key)
      void world.outside(scripts.remove(space, key))
    })
  }
  const leases = new Map<string, { readonly owner: string; readonly until: number }>()

  function connect(process: SimProcess, faults: Faults, registrations: Registrations): RedisState {
    let standing: { readonly life: Life; readonly number: number } | undefined
    let registering: Promise<void> | undefined
    let expected = 0
    /** A process that is still connected to a deposed server is so until the connection ends. */
    const isOver = (of: Life): boolean =>
      of.endsAt <= world.now() || (of.only !== undefined && of.only !== process)

    async function register(): Promise<void> {
      if (world.now() < downUntil) throw new Error('the server is away')
      const met = life
      const number = await registrations.register({
        node,
        runId: met.name,
        replicationId: met.name,
        place: { keyspace: 'keys', masters: [node] },
      })
      if (number < expected) throw new Error('another life is registered')
      if (expected === 0) expected = number
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
      const { space } = of.life
      const virtual = [String(of.number), String(world.now()), '0', '0', '0']
      if (script === onceScript && args[0] !== 'end') {
        leases.set(space + keys[0]!, { owner: args[1]!, until: world.now() + Number(args[3]) })
        lapse(space, keys[0]!, Number(args[3]), args[1]!)
      }
      return await world.outside(scripts.run(space, script, keys, [...virtual, ...args]))
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
        const isNewer = number > expected
        expected = Math.max(expected, number)
        if (standing !== undefined && standing.number < expected) standing = undefined
        return isNewer
      },
      close() {},
    }
  }

  return {
    connect,
    flush() {
      world.trace({ kind: 'flush' })
      lives += 1
      life.space = `${runPrefix}${lives}:`
    },
    restart(downMs) {
      world.trace({ kind: 'redis restarts', downMs })
      life.endsAt = world.now()
      downUntil = world.now() + downMs
      life = newLife()
    },
    failOver(lostMs, deposedMs, only) {
      const old = life
      const next = newLife()
      void world.outside(scripts.copy(old.space, next.space))
      world.at(world.now() + lostMs, () => {
        if (life !== old) return
        world.trace({ kind: 'redis fails over', lostMs, deposedMs })
        old.endsAt = world.now() + deposedMs
        old.only = only
        life = next
      })
    },
    close: () => scripts.removeAll(runPrefix),
  }
}
