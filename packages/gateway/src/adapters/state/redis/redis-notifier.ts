/**
 * Hints between the processes of a fleet, by publishing them in Redis. A server that is away, or a connection that is made
 * again, loses what was told meanwhile: nothing waits for a hint. In a cluster each node passes on to all others what is
 * published to it, so one node is enough, and the next one takes its place.
 */
import { createClient } from '@redis/client'
import type { Hint, Notifier } from '../../../notifier-port.ts'

export interface RedisNotifierOptions {
  /** `redis://…` or `rediss://…`, with credentials: one server, or nodes of one cluster. */
  readonly urls: readonly string[]
  /** Certificates in PEM for `rediss`, beside the authorities of the system. */
  readonly tls?: { readonly ca?: string; readonly cert?: string; readonly key?: string } | undefined
  /** The name of this process, as no other process has it. */
  readonly member: string
  /** Precedes the channel. @defaultValue 'sl:' */
  readonly prefix?: string | undefined
  readonly onError?: ((error: unknown) => void) | undefined
}

/** A connection that is not made by then is tried with the next node, ms. */
const connectMs = 2_000
/** Time between two tries, ms. */
const retryMs = 500
/** Hints that wait for the socket of a server that reads nothing: further ones are lost. */
const waitingMax = 1_000

/** Connects in the background: hints before it are lost. Resolves when it listens, or has tried once. */
export async function createRedisNotifier(options: RedisNotifierOptions): Promise<Notifier> {
  const { urls, tls, member, prefix = 'sl:', onError } = options
  const channel = `${prefix}hints`
  const listeners = new Set<(hint: Hint) => void>()
  let isOpen = true
  let node = 0
  let timer: NodeJS.Timeout | undefined
  let publisher: ReturnType<typeof connectionTo> | undefined
  let subscriber: ReturnType<typeof connectionTo> | undefined

  function connectionTo(url: string) {
    const socket = { connectTimeout: connectMs, reconnectStrategy: false as const }
    const client = createClient({
      url,
      RESP: 2,
      disableOfflineQueue: true,
      disableClientInfo: true,
      maintNotifications: 'disabled',
      commandsQueueMaxLength: waitingMax,
      socket: url.startsWith('rediss:') ? { ...socket, tls: true as const, ...tls } : socket,
    })
    client.on('error', (error) => onError?.(error))
    client.on('end', reconnect)
    client.on('terminated', reconnect)
    return client
  }

  async function connect(): Promise<void> {
    const url = urls[node % urls.length]!
    node += 1
    end()
    const [own, heard] = [connectionTo(url), connectionTo(url)]
    publisher = own
    subscriber = heard
    try {
      await Promise.all([own.connect(), heard.connect()])
      await heard.subscribe(channel, hear)
    } catch (error) {
      onError?.(error)
      reconnect()
    }
  }

  /** Connects again after a pause, however many connections have ended meanwhile. */
  function reconnect(): void {
    if (!isOpen || timer !== undefined) return
    timer = setTimeout(() => {
      timer = undefined
      void connect()
    }, retryMs)
    timer.unref()
  }

  function end(): void {
    for (const client of [publisher, subscriber]) {
      client?.removeAllListeners('end').removeAllListeners('terminated')
      if (client?.isOpen) client.destroy()
    }
  }

  function hear(text: string): void {
    try {
      const { by, hint } = JSON.parse(text) as { by: string; hint: Hint }
      if (by === member) return
      for (const listener of listeners) listener(hint)
    } catch (error) {
      onError?.(error)
    }
  }

  await connect()

  return {
    tell(hint) {
      if (!isOpen || !publisher?.isReady) return
      publisher.publish(channel, JSON.stringify({ by: member, hint })).catch((error: unknown) => {
        onError?.(error)
      })
    },
    listen(listener) {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
    async close() {
      isOpen = false
      clearTimeout(timer)
      listeners.clear()
      end()
    },
  }
}
