/**
 * The servers of limiter state behind one `ask`: a single Redis, or the masters of a Redis Cluster, where the key decides
 * who is asked. The map of slots is read from the cluster when it is first needed, after a redirection, and when a
 * server does not answer; a question that was redirected was not worked, and is asked where it belongs.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { SluiceError } from '../../../errors.ts'
import { defaultSlotMs } from '../../../ports/account-slots.ts'
import type { Registrations } from '../../../ports/limiter.ts'
import type { Clock } from '../../../ports.ts'
import { slotOf, slotsMax } from './key-slot.ts'
import {
  fieldOf,
  isMoving,
  nodeAt,
  Redirection,
  type Reply,
  type SlotRange,
  unavailable,
} from './redis-answers.ts'
import { createRedisServer, type RedisServer, type RedisTls } from './redis-server.ts'
import type { Script } from './scripts.ts'

export interface RedisStateOptions {
  /**
   * `redis://…`, or `redis-cluster://host1,host2` with the credentials of all nodes before the first; `rediss…` with TLS.
   */
  readonly url: string
  readonly registrations: Registrations
  readonly clock: Pick<Clock, 'now' | 'monotonic'>
  /** Certificates in PEM for `rediss`, beside the authorities of the system. */
  readonly tls?: RedisTls | undefined
  /** The longest time that a question may take, ms. @defaultValue 50 */
  readonly deadlineMs?: number | undefined
  /** The width of a slot of the accounts, ms: processes of another one count in another place. @defaultValue `defaultSlotMs` */
  readonly slotMs?: number | undefined
  /** Precedes every key. @defaultValue 'sl:' */
  readonly prefix?: string | undefined
  /** True if the scripts take the time of `clock` in place of the server's, for virtual time. @defaultValue false */
  readonly isVirtual?: boolean | undefined
  readonly onError?: ((error: unknown) => void) | undefined
}

export interface RedisState {
  readonly deadlineMs: number
  /**
   * Runs a script on `<prefix>{<subject>}<name>`, and on further keys of the subject. Rejects with STATE_UNAVAILABLE; then
   * the script may have run, but it does not run any more when the deadline has passed.
   */
  ask(script: Script, key: StateKey, args: readonly string[], deadlineMs?: number): Promise<Reply>
  /**
   * Hears the newest registration of each server, as the store has them. What is asked afterwards is not answered by an
   * earlier life of a server, nor by a node of a cluster in the place of one that another process has met since. Returns
   * true where one of them is newer than what was heard before: what was answered before may be that of another life.
   */
  expect(servers: ReadonlyMap<string, number>): boolean
  close(): void
}

/** Connections to servers that are registered. */
export interface RedisConnections extends RedisState {
  /** Gives all connections up: what is asked next is asked after a new registration. */
  renew(): void
}

export interface StateKey {
  /** The part of the key by which a cluster places it. */
  readonly subject: string
  readonly name: string
  /** The names of further keys. @defaultValue none */
  readonly others?: readonly string[]
}

/** The node of each slot of a cluster. */
type SlotMap = (string | undefined)[]

/** A question is redirected so often at most: the cluster moves a slot once, and may answer with an old map before. */
const redirectionsMax = 4
/** Between two readings of the map of slots, ms: a cluster that fails over is not asked more often. */
const rediscoverMs = 50
/**
 * A master that its cluster has deposed takes no writes any more after this time, ms: twice the usual node timeout. So long
 * a master that another process has met is waited for at most.
 */
const deposedMs = 30_000
/** The most keys that are tried for one that a node holds, whose part of the slots may be small. */
const namesMax = 200
/** A question whose slot no node has, or that is on its way to another one, looks again for one so often, ms. */
const pauseMs = 5

export function createRedisState(options: RedisStateOptions): RedisConnections {
  const { registrations, clock, deadlineMs = 50, slotMs = defaultSlotMs } = options
  const { prefix = 'sl:', isVirtual, onError } = options
  const { seeds, isCluster, urlOf, keysAt } = addressesOf(options.url)
  const slots = slotMs === defaultSlotMs ? '' : ` in slots of ${slotMs} ms`
  const keyspace = `keys ${prefix} of ${keysAt}${slots}`
  /** One connection a node, those of the seeds included. */
  const servers = new Map<string, RedisServer>()
  let nodes: SlotMap = []
  let discovering: Promise<void> | undefined
  /** The newest registrations that this process has heard of. */
  const heard = new Map<string, number>()
  /** Masters that other processes have met and the map of slots does not name, with the instant at which it was heard. */
  const unmet = new Map<string, number>()
  let isClosed = false
  let discoveredAt = Number.NEGATIVE_INFINITY

  function serverOf(node: string): RedisServer {
    if (isClosed) throw unavailable(node, 'the state is closed')
    let server = servers.get(node)
    if (server === undefined) {
      server = createRedisServer({
        url: urlOf(node),
        node,
        tls: options.tls,
        register: (life) =>
          registrations.register({
            ...life,
            place: { keyspace, masters: isCluster ? mastersOf(nodes) : seeds },
          }),
        emptyKey: () => emptyKeyOf(node),
        clock,
        deadlineMs,
        isVirtual,
        onError,
      })
      servers.set(node, server)
    }
    return server
  }

  function emptyKeyOf(node: string): string {
    const names = Array.from({ length: namesMax }, (_, number) => `${prefix}{look${number}}`)
    return (isCluster ? names.find((name) => nodes[slotOf(name)] === node) : undefined) ?? names[0]!
  }

  /** Reads the map of slots from the first node that answers, of those that know of every master that others have met. */
  async function discover(): Promise<void> {
    const known = [...new Set([...servers.keys(), ...seeds, ...mastersOf(nodes)])]
    const awaited = new Map(unmet)
    const ask = async (asked: string) => ({ asked, read: await mapOf(asked) })
    try {
      // Whoever has taken the place of another master knows it.
      const { asked, read } = await Promise.any<{ asked?: string; read: SlotMap }>(
        awaited.size > 0 ? [...Array.from(awaited.keys(), ask), mapOfMost(known)] : known.map(ask),
      )
      nodes = read
      for (const [node, sinceMs] of unmet) {
        // The node whose own map does not name it is no master any more.
        const isMet = asked === undefined ? awaited.get(node) === sinceMs : node === asked
        if (isMet || read.includes(node)) unmet.delete(node)
      }
      dropServers(new Set([...mastersOf(nodes), ...seeds]))
    } catch (error) {
      onError?.(error)
    }
  }

  async function mapOf(node: string): Promise<SlotMap> {
    const server = serverOf(node)
    const [ranges, info] = (await Promise.all([
      server.command('CLUSTER', 'SLOTS'),
      server.command('CLUSTER', 'INFO'),
    ])) as [readonly SlotRange[], string]
    if (ranges.length === 0) {
      // It has left the cluster, and may be the quickest to answer each time.
      unmet.delete(node)
      throw unavailable(node, 'it is in no cluster')
    }
    // It may be cut off from the others, and does not hear of those that have taken the place of masters.
    if (fieldOf(info, 'cluster_state') === 'fail') throw unavailable(node, 'its cluster does not serve')
    const read: SlotMap = new Array(slotsMax)
    for (const [from, to, [host, port]] of ranges) read.fill(nodeAt(host, port, node), from, to + 1)
    return read
  }

  /**
   * Reads the map that more than half of the masters in it answer: masters elect the one that takes the place of another,
   * and one that was deposed is alone with its own map. So a server that this map does not name is no master: whoever keeps
   * the limits while Redis is away gives a new number also to one that was taken away long ago.
   */
  function mapOfMost(known: readonly string[]): Promise<{ read: SlotMap }> {
    const votes = new Map<string, number>()
    return Promise.any(
      known.map(async (node) => {
        const read = await mapOf(node)
        const masters = mastersOf(read)
        const text = read.join()
        const count = (votes.get(text) ?? 0) + Number(masters.includes(node))
        votes.set(text, count)
        if (2 * count > masters.length) return { read }
        throw unavailable(node, 'most masters have not answered yet')
      }),
    )
  }

  function dropServers(kept: ReadonlySet<string>): void {
    for (const [node, server] of servers) {
      if (kept.has(node)) continue
      servers.delete(node)
      server.close()
    }
  }

  function rediscover(): Promise<void> {
    if (performance.now() - discoveredAt < rediscoverMs) return Promise.resolve()
    discovering ??= discover().finally(() => {
      discovering = undefined
      discoveredAt = performance.now()
    })
    return discovering
  }

  /** Waits until the map of slots names every master that another process has met. */
  async function meetAll(endsMs: number): Promise<void> {
    for (;;) {
      const nowMs = performance.now()
      for (const [node, sinceMs] of unmet) if (nowMs - sinceMs > deposedMs) unmet.delete(node)
      const [node] = unmet.keys()
      if (node === undefined) return
      if (nowMs >= endsMs) throw unavailable('the cluster', `the map of slots does not name ${node}`)
      await within(endsMs - nowMs, rediscover())
      if (unmet.size > 0) await sleep(pauseMs)
    }
  }

  async function serverFor(key: string, withinMs: number): Promise<RedisServer> {
    if (!isCluster) return serverOf(seeds[0]!)
    const slot = slotOf(key)
    const endsMs = performance.now() + withinMs
    await meetAll(endsMs)
    while (nodes[slot] === undefined && performance.now() < endsMs) {
      await within(endsMs - performance.now(), rediscover())
      if (nodes[slot] === undefined) await sleep(pauseMs)
    }
    const node = nodes[slot]
    if (node === undefined) throw unavailable('the cluster', `no node has the slot ${slot}`)
    return serverOf(node)
  }

  async function ask(
    script: Script,
    { subject, name, others = [] }: StateKey,
    args: readonly string[],
    withinMs = deadlineMs,
  ) {
    const place = `${prefix}{${subject.replaceAll('}', ')')}}`
    const keys = [place + name, ...others.map((other) => place + other)]
    const endsAt = clock.monotonic() + withinMs
    let server = await serverFor(place, withinMs)
    for (let redirections = 0; ; ) {
      try {
        return await server.ask({ script, keys, args, endsAt })
      } catch (error) {
        if (!isCluster) throw error
        if (isMoving(error)) {
          // The slot is on its way to another node, which has it in a moment.
          if (clock.monotonic() + pauseMs >= endsAt) throw unavailable(server.node, error)
          await sleep(pauseMs)
          continue
        }
        if (!(error instanceof Redirection)) {
          // The node may be gone, or no master any more.
          void rediscover()
          throw error
        }
        if (redirections === redirectionsMax) throw unavailable(server.node, error)
        redirections += 1
        nodes[error.slot] = error.node
        void rediscover()
        server = serverOf(error.node)
      }
    }
  }

  return {
    deadlineMs,
    ask,
    expect(newest) {
      const isFirst = heard.size === 0
      let isNewer = false
      for (const [node, number] of newest) {
        if (heard.get(node) === number) continue
        heard.set(node, number)
        if (servers.get(node)?.expect(number) ?? !isFirst) isNewer = true
        if (isCluster && !isFirst && !nodes.includes(node)) unmet.set(node, performance.now())
      }
      return isNewer
    },
    renew() {
      for (const server of servers.values()) server.renew()
    },
    close() {
      isClosed = true
      for (const server of servers.values()) server.close()
      servers.clear()
    },
  }
}

/** Waits for the work, no longer than that. */
function within(ms: number, work: Promise<void>): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms)
    void work.finally(() => {
      clearTimeout(timer)
      resolve()
    })
  })
}

const mastersOf = (nodes: readonly (string | undefined)[]): readonly string[] => [
  ...new Set(nodes.filter((each) => each !== undefined)),
]

interface Addresses {
  readonly seeds: readonly string[]
  readonly isCluster: boolean
  /** The URL of a node, with the credentials of the given one. */
  readonly urlOf: (node: string) => string
  /** The database in which the keys stand, in words. */
  readonly keysAt: string
}

export function addressesOf(url: string): Addresses {
  const [, scheme, credentials = '', hosts, path = ''] =
    /^(rediss?|rediss?-cluster):\/\/(?:(.*)@)?([^/]+)(\/.*)?$/.exec(url) ?? []
  if (scheme === undefined || hosts === undefined)
    throw new SluiceError(
      'INVALID_CONFIG',
      'state is not redis://host, rediss://host or redis-cluster://host1,host2.',
    )
  const login = credentials === '' ? '' : `${credentials}@`
  const seeds = hosts.split(',').map((host) => (/:\d+$/.test(host) ? host : `${host}:6379`))
  const isCluster = scheme.endsWith('-cluster')
  const nodeScheme = scheme.startsWith('rediss') ? 'rediss' : 'redis'
  if (!isCluster) {
    const database = path.replace(/^\/|[?].*$/g, '') || '0'
    return { seeds: [hosts], isCluster, urlOf: () => url, keysAt: `database ${database}` }
  }
  return {
    seeds,
    isCluster,
    urlOf: (node) => `${nodeScheme}://${login}${node}${path}`,
    keysAt: 'the cluster',
  }
}
