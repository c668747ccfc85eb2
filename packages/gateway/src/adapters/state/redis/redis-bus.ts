/**
 * Texts that the processes of a fleet publish in Redis, and hear. A server that is away, or a connection that is made again,
 * loses what was told meanwhile. In a cluster each node passes on to all others what is published to it, so one node is
 * enough, and another one takes its place: one of those that are given, or that the cluster names.
 */
import { randomBytes } from 'node:crypto'
import { nodeAt, type SlotRange } from './redis-answers.ts'
import { createRedisClient } from './redis-client.ts'

export interface RedisBusOptions {
  /** `redis://…` or `rediss://…`, with credentials: one server, or nodes of one cluster. */
  readonly urls: readonly string[]
  /** The URL of a node of the cluster, of which these are some. @defaultValue it is one server */
  readonly urlOfNode?: ((node: string) => string) | undefined
  /** Certificates in PEM for `rediss`, beside the authorities of the system. */
  readonly tls?: { readonly ca?: string; readonly cert?: string; readonly key?: string } | undefined
  /** Precedes the channel of the beats. @defaultValue 'sl:' */
  readonly prefix?: string | undefined
  readonly onError?: ((error: unknown) => void) | undefined
}

export interface RedisBus {
  /** True while texts are heard and published. */
  isReady(): boolean
  /** Publishes a text, or loses it. Returns at once and never throws. */
  publish(channel: string, text: string): void
  /**
   * Hears a channel on this connection and on each later one; resolves when it does, or has tried once. `onReady` is
   * called whenever the connection was made anew.
   */
  subscribe(channel: string, hear: (text: string) => void, onReady?: () => void): Promise<void>
  close(): void
}

interface Subscription {
  readonly channel: string
  readonly hear: (text: string) => void
  readonly onReady: (() => void) | undefined
}

/** A connection that is not made by then is tried with the next node, ms. */
const connectMs = 2_000
/** Time between two beats, ms, which this process publishes for itself: a node that vanished ends no connection. */
const beatMs = 1_000
/** Beats that may be on their way at once: then the node counts as vanished, and the next one is tried. */
const unheardMax = 3
/** Beats between two questions for the nodes of the cluster. */
const beatsBetween = 5
/** Time between two tries, ms. */
const retryMs = 500
/** Texts that wait for the socket of a server that reads nothing: further ones are lost. */
const waitingMax = 1_000

/** Connects in the background: texts before it are lost. Resolves when it is connected, or has tried once. */
export async function createRedisBus({
  urls,
  urlOfNode,
  tls,
  prefix = 'sl:',
  onError,
}: RedisBusOptions): Promise<RedisBus> {
  const subscriptions: Subscription[] = []
  let isOpen = true
  let isHearing = false
  /** Where it may connect: the given addresses, and the masters of the cluster as the last node named them. */
  let addresses = urls
  let node = 0
  let url = urls[0]!
  let timer: NodeJS.Timeout | undefined
  let unheard = 0
  let beatsMade = 0
  let publisher: ReturnType<typeof connectionTo> | undefined
  let subscriber: ReturnType<typeof connectionTo> | undefined

  function clientOf(url: string) {
    const socket = { connectTimeout: connectMs, reconnectStrategy: false as const }
    return createRedisClient({
      url,
      disableOfflineQueue: true,
      disableClientInfo: true,
      maintNotifications: 'disabled',
      commandsQueueMaxLength: waitingMax,
      socket: url.startsWith('rediss:') ? { ...socket, tls: true as const, ...tls } : socket,
    }).on('error', (error) => onError?.(error))
  }

  function connectionTo(url: string) {
    const client = clientOf(url)
    client.on('end', reconnect)
    client.on('terminated', reconnect)
    return client
  }

  async function connect(): Promise<void> {
    url = addresses[node % addresses.length]!
    node += 1
    end()
    const [own, heard] = [connectionTo(url), connectionTo(url)]
    publisher = own
    subscriber = heard
    try {
      await inTime(async () => {
        await Promise.all([own.connect().then(() => meetNodes(own)), heard.connect()])
        // Channels that are added meanwhile are heard after the others.
        for (let known = 0; known < subscriptions.length; ) {
          const added = subscriptions.slice(known)
          known = subscriptions.length
          await Promise.all(added.map(({ channel, hear }) => heard.subscribe(channel, hear)))
        }
      })
      if (subscriber !== heard || !isOpen) return
      isHearing = true
      unheard = 0
      for (const { onReady } of subscriptions) onReady?.()
    } catch (error) {
      // The next try has ended this one, and must not be ended by it.
      if (subscriber !== heard) return
      onError?.(error)
      reconnect()
    }
  }

  /** Connects again after a pause, however many connections have ended meanwhile. */
  function reconnect(): void {
    isHearing = false
    if (!isOpen || timer !== undefined) return
    timer = setTimeout(() => {
      timer = undefined
      void connect()
    }, retryMs)
    timer.unref()
  }

  function end(): void {
    isHearing = false
    for (const client of [publisher, subscriber]) {
      client?.removeAllListeners('end').removeAllListeners('terminated')
      if (client?.isOpen) client.destroy()
    }
  }

  function leave(why: string): void {
    onError?.(new Error(`${why} ${shownOf(url)}`))
    end()
    reconnect()
  }

  /**
   * Hears where the cluster has its nodes by now: those that were given may go one after the other. One that has left the
   * cluster and still runs keeps its connections, and passes nothing on.
   */
  async function meetNodes(of: NonNullable<typeof publisher>): Promise<void> {
    if (urlOfNode === undefined) return
    try {
      const [ranges, isServing] = await Promise.all([
        of.sendCommand<readonly SlotRange[]>(['CLUSTER', 'SLOTS']),
        servesCluster(of),
      ])
      const nodes = ranges.map(([, , [host, port]]) => nodeAt(host, port, shownOf(url)))
      if (publisher !== of) return
      if (nodes.length === 0) leave('the bus leaves a node that is in no cluster:')
      else addresses = [...new Set([...urls, ...nodes.map(urlOfNode)])]
      // A new connection does not wait for the others, which may be away.
      if (!isServing) void leaveMinority(of)
    } catch (error) {
      onError?.(error)
    }
  }

  /**
   * Goes to a node whose cluster serves, where there is one: the side of a cut that has most masters serves, and a node
   * on the other side passes nothing on to it. Where a part of the slots has no master no node serves, and all pass on.
   */
  async function leaveMinority(of: NonNullable<typeof publisher>): Promise<void> {
    const others = addresses.filter((address) => address !== url).map(serving)
    const found = await Promise.any(others).catch(() => undefined)
    if (found === undefined || publisher !== of) return
    node = addresses.indexOf(found)
    leave('the bus leaves a node that is cut off from its cluster:')
  }

  /** Returns the address if its node answers that its cluster serves. */
  async function serving(address: string): Promise<string> {
    const client = clientOf(address)
    try {
      const connected = inTime(() => client.connect().then(() => servesCluster(client)))
      if (await connected) return address
    } finally {
      if (client.isOpen) client.destroy()
    }
    throw new Error(`the cluster of ${shownOf(address)} does not serve`)
  }

  /** A server that was demoted keeps its connections, and does not pass on to its master what is published to it. */
  async function leaveReplica(of: NonNullable<typeof publisher>): Promise<void> {
    const info = await of.info('replication').catch(() => '')
    if (publisher === of && info.includes('role:slave')) leave('the bus leaves a server that was demoted:')
  }

  // Among the channels that a user with an ACL has in any case (docs/guides/many-machines.md).
  const beats = `${prefix}peers:beat:${randomBytes(8).toString('hex')}`
  subscriptions.push({
    channel: beats,
    hear: () => {
      unheard = 0
    },
    onReady: undefined,
  })
  const beating = setInterval(() => {
    if (!isHearing) return
    if (unheard >= unheardMax) {
      leave('nothing is heard from')
      return
    }
    unheard += 1
    beatsMade += 1
    publish(beats, '')
    if (publisher === undefined) return
    if (urlOfNode === undefined) void leaveReplica(publisher)
    else if (beatsMade % beatsBetween === 0) void meetNodes(publisher)
  }, beatMs)
  beating.unref()

  function publish(channel: string, text: string): void {
    if (!isOpen || !publisher?.isReady) return
    publisher.publish(channel, text).catch((error: unknown) => onError?.(error))
  }

  await connect()

  return {
    isReady: () => isHearing && publisher?.isReady === true,
    publish,
    async subscribe(channel, hear, onReady) {
      subscriptions.push({ channel, hear, onReady })
      if (!isHearing) return
      const on = subscriber!
      try {
        await inTime(() => on.subscribe(channel, hear))
        onReady?.()
      } catch (error) {
        onError?.(error)
        if (subscriber === on) reconnect()
      }
    },
    close() {
      isOpen = false
      clearTimeout(timer)
      clearInterval(beating)
      end()
    },
  }
}

async function servesCluster(client: ReturnType<typeof createRedisClient>): Promise<boolean> {
  return (await client.sendCommand<string>(['CLUSTER', 'INFO'])).includes('cluster_state:ok')
}

/** A server that was stopped takes a connection, and answers nothing on it. */
async function inTime<T>(work: () => Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${connectMs} ms`)), connectMs)
  })
  try {
    return await Promise.race([work(), late])
  } finally {
    clearTimeout(timer)
  }
}

/** Host and port: an address holds a password. */
const shownOf = (url: string): string => new URL(url).host
