/**
 * Looks at the servers of limiter state without changing anything: `sluice check` tells what a start will find, and a start
 * ends with the same sentences. Every fault has its way out.
 */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { connect as connectByTls } from 'node:tls'
import { SluiceError } from '../../../errors.ts'
import { fieldOf, nodeAt, type SlotRange } from './redis-answers.ts'
import { createRedisClient } from './redis-client.ts'
import type { RedisTls } from './redis-server.ts'
import { addressesOf } from './redis-state.ts'

export interface RedisLookOptions {
  /** The address with its credentials, as `createRedisState` takes it. */
  readonly url: string
  readonly nodes: readonly string[]
  readonly isCluster: boolean
  readonly tls?: RedisTls | undefined
  /** The width of a slot of the accounts, ms. */
  readonly slotMs: number
  /** Keys begin with it, and the names of channels. */
  readonly prefix: string
  /** True where several gateways speak to each other over its channels. */
  readonly usesChannels: boolean
  /** The address without its password. */
  readonly shown: string
  readonly now: () => number
  /** Called with a sentence where a server answers too slowly for the accounts of the pools. */
  readonly onSlow?: ((detail: string) => void) | undefined
}

/** The oldest server whose scripts and commands are those that are needed. */
const versionMin = [6, 2] as const
const connectMs = 3_000
/** A server that is frozen takes connections and answers nothing: the look ends after so long, ms. */
const lookMs = 6_000
/** A port that is asked with TLS, or without it, answers within this time, ms. */
const plainMs = 1_000
/** The server's clock is measured at each connection; above this its machine is set wrong, ms. */
const clockWrongMs = 60_000
/** From this on some gateways make no call, ms; up to 17 ms all of a pool's rate was used (docs/guides/many-machines.md). */
const farMs = 20
/** The quickest of so many answers counts: one of them may be late because this process is. */
const readingsMax = 10

type Client = ReturnType<typeof connectTo>

/**
 * Connects, and describes the servers in a sentence.
 * @throws SluiceError INVALID_CONFIG where a start would end with it
 */
export async function lookAtRedis(options: RedisLookOptions): Promise<string> {
  const { nodes, isCluster } = options
  const found = isCluster ? await mastersOf(options) : nodes
  const sentences = await Promise.all(
    found.map((node) => withNode(options, node, (client) => describe(options, node, client))),
  )
  return [isCluster ? `Redis Cluster of ${found.length} masters.` : '', ...new Set(sentences)]
    .join(' ')
    .trim()
}

function connectTo({ url: address, tls }: RedisLookOptions, node: string) {
  const url = addressesOf(address).urlOf(node)
  return createRedisClient({
    url,
    disableClientInfo: true,
    maintNotifications: 'disabled',
    socket: {
      ...(url.startsWith('rediss:') ? { tls: true as const, ...tls } : {}),
      connectTimeout: connectMs,
      reconnectStrategy: false,
    },
  })
}

async function withNode<T>(
  options: RedisLookOptions,
  node: string,
  work: (client: Client) => Promise<T>,
): Promise<T> {
  const client = connectTo(options, node)
  client.on('error', () => {})
  const { promise: isOver, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(new Error(`no answer within ${lookMs / 1_000} s`)), lookMs)
  try {
    return await Promise.race([client.connect().then(() => work(client)), isOver])
  } catch (error) {
    if (error instanceof SluiceError) throw error
    // A proxy whose server is away ends connections, too.
    const isMute = /timeout|ECONNRESET|EPIPE|Socket closed/i.test(String((error as Error).message))
    const answersOtherwise = options.shown.startsWith('rediss') ? answersWithoutTls : answersWithTls
    throw startFault(error, options, node, isMute && (await answersOtherwise(node)))
  } finally {
    clearTimeout(timer)
    if (client.isOpen) client.destroy()
  }
}

/** True if a port answers a question without TLS. Such a port waits for the rest of a TLS greeting, which it does not understand. */
async function answersWithoutTls(node: string): Promise<boolean> {
  const socket = connect(endsOf(node))
  socket.on('connect', () => socket.write('PING\r\n'))
  return isHeard(socket, 'data')
}

/** True if a port greets by TLS, with whatever certificate. */
const answersWithTls = (node: string): Promise<boolean> =>
  isHeard(connectByTls({ ...endsOf(node), rejectUnauthorized: false }), 'secureConnect')

function endsOf(node: string): { readonly host: string; readonly port: number } {
  const at = node.lastIndexOf(':')
  return { host: node.slice(0, at).replace(/^\[|\]$/g, ''), port: Number(node.slice(at + 1)) }
}

async function isHeard(socket: Socket, event: string): Promise<boolean> {
  try {
    await once(socket, event, { signal: AbortSignal.timeout(plainMs) })
    return true
  } catch {
    return false
  } finally {
    socket.destroy()
  }
}

/** True where a start need not end with it: the server may come up, or have memory, a moment later. */
export const isUnreachable = (error: unknown): boolean =>
  error instanceof SluiceError && [unreachable, full].some((sentence) => error.message.includes(sentence))
const unreachable = 'cannot be reached'
const full = 'takes no writes'

const fault = (sentence: string, cause?: unknown): SluiceError =>
  new SluiceError('INVALID_CONFIG', `state: ${sentence}`, cause === undefined ? {} : { cause })

function startFault(
  error: unknown,
  { shown, prefix }: RedisLookOptions,
  node: string,
  answersOtherwise: boolean,
): SluiceError {
  const message = error instanceof Error ? error.message : String(error)
  const code = (error as NodeJS.ErrnoException).code ?? ''
  const at = shown.includes(node) ? shown : `${node} (of ${shown})`
  if (/WRONGPASS|invalid password|invalid username/.test(message))
    return fault(`${at} refuses the user or the password; correct them in the address.`, error)
  if (/without any password configured/.test(message))
    return fault(`${at} asks for no password; take it out of the address, or set one there.`, error)
  if (/NOAUTH/.test(message))
    return fault(`${at} wants a password; write it into the address, as redis://:password@host.`, error)
  if (/NOPERM/.test(message))
    return fault(
      `${at} does not let this user do what is needed (${message}); its rights are given by ACL SETUSER <user> ~${prefix}* &${prefix}* +@all -@dangerous +info.`,
      error,
    )
  if (/^CLUSTERDOWN/.test(message))
    return fault(
      `${at} ${unreachable} (${message}): a master of the cluster is away, and none of its replicas has taken its place yet.`,
      error,
    )
  if (/MOVED|CLUSTER|cluster support disabled/i.test(message))
    return fault(`${at} is no Redis Cluster; write redis:// for a single server.`, error)
  if (/certificate|self.signed|altnames|CERT_|ERR_TLS/i.test(`${code} ${message}`))
    return fault(
      `the certificate of ${at} is not accepted (${message}); name its authority with ?ca=<file>, or the host that stands in it.`,
      error,
    )
  if (answersOtherwise || /wrong version number|SSL/i.test(`${code} ${message}`))
    return fault(
      `${at} ended the connection (${message}); rediss:// is for a port with TLS, redis:// for one without.`,
      error,
    )
  return fault(
    `${at} ${unreachable} (${code === '' ? message : code}); see that Redis runs there and that this machine may connect.`,
    error,
  )
}

/** Reads the masters from the first of the named nodes that answers. */
async function mastersOf(options: RedisLookOptions): Promise<readonly string[]> {
  let last: unknown
  for (const node of options.nodes)
    try {
      return await withNode(options, node, async (client) => {
        const ranges = (await client.sendCommand(['CLUSTER', 'SLOTS'])) as unknown as readonly SlotRange[]
        const covered = ranges.reduce((sum, [from, to]) => sum + to - from + 1, 0)
        if (covered < 16_384)
          throw fault(
            `${options.shown} covers ${covered} of 16384 slots; complete the cluster (CLUSTER INFO says what is missing).`,
          )
        return [...new Set(ranges.map(([, , [host, port]]) => nodeAt(host, port, node)))].sort()
      })
    } catch (error) {
      last = error
    }
  throw last
}

/** Runs a script that deletes a key which is never there, listens for a moment, and speaks where nobody listens. */
async function tryRights({ prefix, usesChannels }: RedisLookOptions, client: Client): Promise<void> {
  try {
    await client.sendCommand(['EVAL', "return redis.call('DEL', KEYS[1])", '1', `${prefix}{look}`])
  } catch (error) {
    // Another master of a cluster holds the key; the rights are looked at before.
    if (!/^(MOVED|ASK) /.test(String((error as Error).message))) throw error
  }
  if (!usesChannels) return
  const channels = ['hints', 'peers', 'peers:look'].map((name) => `${prefix}${name}`)
  await client.subscribe(channels, () => {})
  await client.unsubscribe(channels)
  await client.sendCommand(['PUBLISH', `${prefix}peers:look`, ''])
}

async function describe(options: RedisLookOptions, node: string, client: Client): Promise<string> {
  const { isCluster, shown, now, usesChannels, slotMs } = options
  const sections = await Promise.all(
    ['server', 'replication', 'memory', 'persistence', 'cluster'].map((name) =>
      client.sendCommand(['INFO', name]),
    ),
  )
  const info = sections.map(String).join('\n')
  const version = fieldOf(info, 'redis_version')
  const [major = 0, minor = 0] = version.split('.').map(Number)
  if (major < versionMin[0] || (major === versionMin[0] && minor < versionMin[1]))
    throw fault(`${node} is Redis ${version}; expected ${versionMin.join('.')} or newer, or a Valkey.`)
  if (fieldOf(info, 'role') !== 'master')
    throw fault(
      `${node} is a replica of ${fieldOf(info, 'master_host')}:${fieldOf(info, 'master_port')}; name the master.`,
    )
  if (!isCluster && fieldOf(info, 'cluster_enabled') === '1')
    throw fault(`${node} is a node of a Redis Cluster; write redis-cluster://${node}.`)
  const policy = fieldOf(info, 'maxmemory_policy')
  const maxBytes = Number(fieldOf(info, 'maxmemory'))
  if (policy !== 'noeviction' && maxBytes > 0)
    throw fault(
      `${node} evicts values when its ${fieldOf(info, 'maxmemory_human')} are full (maxmemory-policy ${policy}): an evicted value is unknown and read again from the store, over and over, and accounts pause for it. Set maxmemory-policy to noeviction.`,
    )
  const usedBytes = Number(fieldOf(info, 'used_memory')) - Number(fieldOf(info, 'mem_not_counted_for_evict'))
  if (maxBytes > 0 && usedBytes > maxBytes)
    throw fault(
      `${node} ${full}, because its ${fieldOf(info, 'maxmemory_human')} (maxmemory) are used: nothing is decided until it has more memory, or less to keep.`,
    )
  await tryRights(options, client)
  // A token of an account lasts a slot: the question for it and for the limits of the recipient have to fit in.
  const slowMs = Math.min(slotMs / 4, farMs)
  const { tookMs, aheadMs } = await readClock(client, now, slowMs)
  const speed = `answers in ${tookMs.toFixed(1)} ms`
  const way =
    tookMs < farMs ? `, or give all of them ?slot=${slotOf(tookMs)}ms in the address of the state` : ''
  const slow = `${speed} at best, and from ${slowMs} ms on a busy gateway makes fewer calls to providers, from some ${farMs} ms on perhaps none: keep it in the network of the gateways${way}`
  // One gateway with a file has its accounts in its own memory.
  const isSlow = usesChannels && tookMs >= slowMs
  if (isSlow) options.onSlow?.(`${node} ${slow}.`)
  const software =
    fieldOf(info, 'server_name') === 'valkey'
      ? `Valkey ${fieldOf(info, 'valkey_version')}`
      : `Redis ${version}`
  const replicas = Number(fieldOf(info, 'connected_slaves'))
  return [
    `${software} at ${node}${shown.startsWith('rediss') ? ', TLS' : ''}: master${replicas > 0 ? ` with ${replicas} replica${replicas === 1 ? '' : 's'}` : ''}`,
    policy === 'noeviction'
      ? 'evicts nothing'
      : `maxmemory-policy ${policy} without a maxmemory, which evicts nothing`,
    persistenceOf(info),
    clockOf(aheadMs),
    `${isSlow ? slow : speed}.`,
  ].join('; ')
}

/** The least width of a slot, in tens of ms, in which the answers of a server are quick enough. */
const slotOf = (tookMs: number): number => 10 * Math.floor((4 * tookMs) / 10 + 1)

/** Reads how far the clock of the server is ahead, by the quickest of several answers. */
async function readClock(
  client: Client,
  now: () => number,
  slowMs: number,
): Promise<{ readonly tookMs: number; readonly aheadMs: number }> {
  let best = { tookMs: Number.POSITIVE_INFINITY, aheadMs: 0 }
  for (let readings = 0; readings < readingsMax && best.tookMs >= slowMs; readings += 1) {
    const sentAt = performance.now()
    const askedAt = now()
    const [seconds, micros] = (await client.sendCommand(['TIME'])) as unknown as readonly string[]
    const tookMs = performance.now() - sentAt
    const aheadMs = Math.round(Number(seconds) * 1_000 + Number(micros) / 1_000 - askedAt - tookMs / 2)
    if (tookMs < best.tookMs) best = { tookMs, aheadMs }
  }
  return best
}

/** Persistence is not needed: what a restart loses is unknown, and filled from the store. */
function persistenceOf(info: string): string {
  if (fieldOf(info, 'aof_enabled') === '1') return 'append-only file'
  return 'no append-only file, so the limits are read from the store again after a restart'
}

function clockOf(aheadMs: number): string {
  const way = aheadMs < 0 ? 'behind' : 'ahead of'
  const text = `its clock is ${Math.abs(aheadMs)} ms ${way} this machine's`
  return Math.abs(aheadMs) > clockWrongMs ? `${text}, which is allowed for, but set one of them right` : text
}
