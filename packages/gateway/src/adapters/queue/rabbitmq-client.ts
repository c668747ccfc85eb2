/**
 * One connection to RabbitMQ with one channel that is set up anew whenever it was lost. The client connects again by
 * itself; a channel that the broker closed, or that stopped answering, is replaced here.
 */
import { type Channel, Connection, type ConnectionOptions } from 'rabbitmq-client'
import type { Clock } from '../../ports.ts'

export interface RabbitmqAddress {
  /** Host and port of each node. */
  readonly nodes: readonly string[]
  readonly user: string
  readonly password: string
  readonly vhost: string
  /** Certificates in PEM beside the authorities of the system; absent: no TLS. */
  readonly tls?: { readonly ca?: string; readonly cert?: string; readonly key?: string }
  /** The address without the password. */
  readonly shown: string
}

export interface RabbitmqClientOptions {
  readonly address: RabbitmqAddress
  readonly clock: Pick<Clock, 'now' | 'at'>
  /** Sets a new channel up, before anybody uses it. */
  readonly setUp?: (channel: Channel) => Promise<void>
  readonly onOpen: (channel: Channel) => void
  readonly onLost: (error: unknown) => void
}

/** A connection attempt is given up after this time, ms. */
const connectMs = 5_000
/** Between two attempts, ms: the lower bound, and the upper one. */
const retryLowMs = 100
const retryHighMs = 1_000
/** A silent connection is lost after twice this time, s. */
const heartbeatS = 5
/** A channel is opened within this time, or tried again, ms. */
const acquireMs = 2_000

export const connectionOptions = ({
  nodes,
  user,
  password,
  vhost,
  tls,
}: RabbitmqAddress): ConnectionOptions => ({
  hosts: [...nodes],
  username: user,
  password,
  vhost,
  ...(tls === undefined ? {} : { tls: { ...tls, rejectUnauthorized: true } }),
  connectionName: 'sluice',
  connectionTimeout: connectMs,
  acquireTimeout: acquireMs,
  retryLow: retryLowMs,
  retryHigh: retryHighMs,
  heartbeat: heartbeatS,
  noDelay: true,
})

export class RabbitmqClient {
  readonly #options: RabbitmqClientOptions
  #connection: Connection
  #channel: Channel | undefined
  /** The connection on which a channel is being opened. */
  #opening: Connection | undefined
  #isBlocked = false
  #isClosed = false
  #error: unknown = new Error('not connected yet')

  constructor(options: RabbitmqClientOptions) {
    this.#options = options
    this.#connection = this.#connect()
  }

  /** The channel in use; undefined while there is none, or the broker takes nothing because its memory or disk is full. */
  get channel(): Channel | undefined {
    return this.#isBlocked ? undefined : this.#channel
  }

  /** Why there is no channel. */
  get error(): unknown {
    return this.#error
  }

  /** Opens a channel beside the one in use, for what may close it. */
  acquire(): Promise<Channel> {
    return this.#connection.acquire()
  }

  /** Gives up a connection that does not answer, and connects anew. One that the broker has blocked answers later. */
  renew(error: unknown): void {
    if (this.#isClosed || this.#isBlocked) return
    const given = this.#connection
    this.#connection = this.#connect()
    this.#lose(error)
    given.unsafeDestroy()
  }

  close(): void {
    this.#isClosed = true
    this.#channel = undefined
    this.#connection.unsafeDestroy()
  }

  #connect(): Connection {
    const connection = new Connection(connectionOptions(this.#options.address))
    const isCurrent = (): boolean => !this.#isClosed && this.#connection === connection
    connection.on('error', (error) => {
      if (isCurrent()) this.#lose(error)
    })
    connection.on('connection', () => {
      if (isCurrent()) void this.#open(connection)
    })
    connection.on('connection.blocked', (reason) => {
      if (!isCurrent()) return
      this.#isBlocked = true
      this.#error = new Error(`the broker takes nothing: ${reason}`)
      this.#options.onLost(this.#error)
    })
    connection.on('connection.unblocked', () => {
      if (!isCurrent()) return
      this.#isBlocked = false
      // Whoever gave up a publication meanwhile publishes it again.
      this.renew(this.#error)
    })
    return connection
  }

  async #open(connection: Connection): Promise<void> {
    if (this.#isClosed || this.#connection !== connection || this.#opening === connection) return
    this.#opening = connection
    try {
      const channel = await connection.acquire()
      await this.#options.setUp?.(channel)
      if (this.#isClosed || this.#connection !== connection) return
      this.#channel = channel
      channel.once('close', () => {
        if (this.#channel !== channel) return
        this.#lose(new Error('the channel was closed'))
        this.#again(connection)
      })
      this.#options.onOpen(channel)
    } catch (error) {
      if (this.#isClosed || this.#connection !== connection) return
      this.#lose(error)
      this.#again(connection)
    } finally {
      this.#opening = undefined
    }
  }

  #again(connection: Connection): void {
    const { clock } = this.#options
    clock.at(clock.now() + retryLowMs, () => {
      if (connection.ready && this.#channel === undefined) void this.#open(connection)
    })
  }

  #lose(error: unknown): void {
    this.#error = error
    this.#channel = undefined
    this.#isBlocked = false
    if (!this.#isClosed) this.#options.onLost(error)
  }
}
