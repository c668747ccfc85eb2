/**
 * One open WebSocket. Input is read no faster than its budget, checked, and handled; output gathers until its
 * turn (flusher.ts) and is bounded: a client that does not read is disconnected. A heartbeat finds clients that
 * are gone, and the connection ends when its token expires.
 */
import type { Duplex } from 'node:stream'
import type { WebSocket } from 'ws'
import { SluiceError } from '../../errors.ts'
import type { Clock } from '../../ports.ts'
import { type Identity, publishScope } from '../identity.ts'
import type { Budget } from './budget.ts'
import type { Deadlines, Mortal } from './deadlines.ts'
import type { Flusher, Writer } from './flusher.ts'
import { textFrame } from './frame.ts'
import { recipientOf, type WebSocketHub } from './hub.ts'
import {
  badMessage,
  type ClientMessage,
  closeCodes,
  readClientMessage,
  type ServerMessage,
} from './messages.ts'
import type { Subscriber } from './room.ts'
import type { Published } from './throttle.ts'

export interface ConnectionOptions {
  readonly socket: WebSocket
  /** The stream to which the socket writes. */
  readonly stream: Duplex
  readonly identity: Identity
  /** Without keys every client may subscribe to every recipient. */
  readonly anyRecipient: boolean
  readonly hub: WebSocketHub
  readonly flusher: Flusher
  readonly deadlines: Deadlines
  readonly clock: Pick<Clock, 'now' | 'at'>
  /** The budgets of the connection and of its tenant. */
  readonly budgets: readonly Budget[]
  readonly subscriptionsMax: number
  /** Bytes at most that wait for a client that does not read. */
  readonly unreadMaxBytes: number
  readonly heartbeatMs: number
  readonly onError: (error: unknown) => void
}

interface Parcel {
  readonly frame: Buffer
  readonly written: ((taken: boolean) => void) | undefined
}

/** Grace period of a client with more unread bytes than allowed: a burst does not mean that it is gone. */
const catchUpMs = 1_000
/** The unread bytes never exceed this multiple of `unreadMaxBytes`, burst or not. */
const burstMax = 16
const warningEveryMs = 1_000
const open = 1

export class Connection implements Subscriber, Writer, Mortal {
  readonly tenant: string
  readonly #options: ConnectionOptions
  readonly #channels = new Set<string>()
  #outbox: Parcel[] = []
  #outboxBytes = 0
  #ending = false
  #alive = true
  #nextBeatAt: number
  #warnedAt = Number.NEGATIVE_INFINITY
  #isWatched = false
  #resumeAt = 0

  constructor(options: ConnectionOptions) {
    this.#options = options
    this.tenant = options.identity.tenant
    const { socket, deadlines, clock } = options
    socket.on('message', (bytes: Buffer, isBinary: boolean) => this.#onMessage(bytes, isBinary))
    socket.on('ping', (payload: Buffer) => {
      this.#hear()
      if (socket.readyState === open && socket.bufferedAmount < options.unreadMaxBytes) socket.pong(payload)
    })
    socket.on('pong', () => this.#hear())
    // An invalid frame ends the connection with a code of its own; `close` follows.
    socket.on('error', () => {})
    socket.on('close', (code: number) => this.#onClose(code))
    this.#nextBeatAt = clock.now() + options.heartbeatMs
    deadlines.add(this.#nextDeadline(), this)
  }

  // ---- output

  send(frame: Buffer, written?: (taken: boolean) => void): void {
    if (this.#ending) {
      written?.(false)
      return
    }
    this.#outbox.push({ frame, written })
    this.#outboxBytes += frame.length
    if (this.#outbox.length === 1) this.#options.flusher.wake(this)
    else if (this.#outboxBytes > burstMax * this.#options.unreadMaxBytes) this.#cutOff()
  }

  flush(): void {
    const parcels = this.#takeOutbox()
    const { socket, stream } = this.#options
    if (socket.readyState !== open) {
      for (const { written } of parcels) written?.(false)
      return
    }
    // Whole frames between the frames of `socket`, which itself writes only control frames.
    if (parcels.length > 1) stream.cork()
    for (const { frame, written } of parcels) {
      if (written === undefined) stream.write(frame)
      else stream.write(frame, (error) => written(error === undefined || error === null))
    }
    if (parcels.length > 1) stream.uncork()
    this.#watch()
  }

  #say(message: ServerMessage): void {
    this.send(textFrame(JSON.stringify(message)))
  }

  #takeOutbox(): Parcel[] {
    const parcels = this.#outbox
    this.#outbox = []
    this.#outboxBytes = 0
    return parcels
  }

  #watch(): void {
    const { socket, unreadMaxBytes, clock } = this.#options
    if (this.#isWatched || socket.bufferedAmount <= unreadMaxBytes) return
    if (socket.bufferedAmount > burstMax * unreadMaxBytes) {
      this.#cutOff()
      return
    }
    this.#isWatched = true
    clock.at(clock.now() + catchUpMs, () => {
      this.#isWatched = false
      if (socket.bufferedAmount > unreadMaxBytes) this.#cutOff()
    })
  }

  #cutOff(): void {
    for (const { written } of this.#takeOutbox()) written?.(false)
    this.end(closeCodes.unread, 'does not read')
  }

  /**
   * Writes the gathered frames, and closes with a code; the socket disconnects a client that does not answer.
   */
  end(code: number, reason: string): void {
    if (this.#ending) return
    this.#ending = true
    this.#leave()
    this.flush()
    const { socket } = this.#options
    socket.close(code, reason)
    // The client's close frame must be read.
    socket.resume()
  }

  /** Stops reading for good. */
  stopReading(): void {
    if (this.#options.socket.readyState === open) this.#options.socket.pause()
  }

  terminate(): void {
    this.#options.socket.terminate()
  }

  // ---- input

  #onMessage(bytes: Buffer, isBinary: boolean): void {
    this.#hear()
    if (this.#ending) return
    let channel: string | undefined
    try {
      if (isBinary) throw badMessage('Send messages as text frames, not binary ones.')
      const message = readClientMessage(bytes)
      if (message.type !== 'ping') channel = message.channel
      this.#obey(message)
    } catch (error) {
      if (!(error instanceof SluiceError)) this.#options.onError(error)
      this.#refuse(error instanceof SluiceError ? error : badMessage('It could not be handled.'), channel)
    }
  }

  #obey(message: ClientMessage): void {
    switch (message.type) {
      case 'ping':
        this.#say({ type: 'pong' })
        break
      case 'subscribe':
        this.#subscribe(message.channel)
        break
      case 'unsubscribe':
        if (this.#channels.delete(message.channel))
          this.#options.hub.room(this.tenant).unsubscribe(message.channel, this)
        this.#say({ type: 'unsubscribed', channel: message.channel })
        break
      case 'publish':
        this.#publish(message.channel, message.data)
    }
  }

  #subscribe(channel: string): void {
    const { identity, anyRecipient, subscriptionsMax, hub } = this.#options
    const recipient = recipientOf(channel)
    if (recipient !== undefined && recipient !== identity.subject && !anyRecipient)
      throw forbidden('Only a token with that sub may subscribe to this channel.')
    if (!this.#channels.has(channel) && this.#channels.size >= subscriptionsMax) {
      const detail = `A connection subscribes to at most ${subscriptionsMax} channels.`
      throw new SluiceError('WS_TOO_MANY_SUBSCRIPTIONS', detail)
    }
    this.#channels.add(channel)
    this.#say({ type: 'subscribed', channel })
    hub.subscribe(this.tenant, channel, this)
  }

  #publish(channel: string, data: unknown): void {
    const { identity, hub } = this.#options
    if (!identity.scopes.has(publishScope)) throw forbidden(`Publishing needs the scope ${publishScope}.`)
    if (recipientOf(channel) !== undefined)
      throw forbidden('The channels of people carry notifications: POST /api/v1/notifications.')
    const outcome = hub.publish(this.tenant, channel, data)
    if (outcome === 'full') {
      const detail = 'Too many messages of this tenant wait already; this one was dropped.'
      throw new SluiceError('WS_BUFFER_FULL', detail)
    }
    if (outcome instanceof Promise) void outcome.then((known) => this.#warnOf(known))
    else this.#warnOf(outcome)
  }

  #warnOf(outcome: Published): void {
    const now = this.#options.clock.now()
    if (outcome === 'sent' || now - this.#warnedAt < warningEveryMs) return
    this.#warnedAt = now
    this.#say({ type: 'warning', code: 'WS_RATE_LIMITED', message: 'Message throttled. Retry in 1s.' })
  }

  #refuse({ code, message }: SluiceError, channel: string | undefined): void {
    this.#options.hub.refuse(code)
    this.#say({
      type: 'error',
      code: code as Extract<ServerMessage, { type: 'error' }>['code'],
      message,
      ...(channel === undefined ? {} : { channel }),
    })
  }

  /** Records a frame as sign of life and spends it: above the budget reading pauses until it is paid for. */
  #hear(): void {
    this.#alive = true
    const { socket, clock, budgets } = this.#options
    const now = clock.now()
    const waitMs = Math.max(...budgets.map((budget) => budget.spend(now)))
    if (waitMs === 0 || socket.readyState !== open) return
    const isPaused = this.#resumeAt > now
    this.#resumeAt = Math.max(this.#resumeAt, now + waitMs)
    if (isPaused) return
    socket.pause()
    clock.at(this.#resumeAt, () => this.#resume())
  }

  #resume(): void {
    const { socket, clock } = this.#options
    if (this.#resumeAt > clock.now()) clock.at(this.#resumeAt, () => this.#resume())
    else socket.resume()
  }

  // ---- timers

  onDeadline(now: number): number | undefined {
    const { socket, identity, heartbeatMs } = this.#options
    if (socket.readyState !== open || this.#ending) return undefined
    if (identity.expiresAtMs !== undefined && identity.expiresAtMs <= now) {
      this.end(closeCodes.expired, 'the token has expired')
      return undefined
    }
    if (this.#nextBeatAt <= now) {
      // While reading pauses, an answer to the heartbeat cannot arrive.
      if (!this.#alive && this.#resumeAt < this.#nextBeatAt - heartbeatMs) {
        this.terminate()
        return undefined
      }
      this.#alive = false
      this.#nextBeatAt = now + heartbeatMs
      socket.ping()
    }
    return this.#nextDeadline()
  }

  #nextDeadline(): number {
    return Math.min(this.#nextBeatAt, this.#options.identity.expiresAtMs ?? Number.POSITIVE_INFINITY)
  }

  #leave(): void {
    const room = this.#options.hub.room(this.tenant)
    for (const channel of this.#channels) room.unsubscribe(channel, this)
    this.#channels.clear()
  }

  #onClose(code: number): void {
    this.#ending = true
    this.#leave()
    for (const { written } of this.#takeOutbox()) written?.(false)
    this.#options.hub.closed(knownCloses.has(code) ? String(code) : 'other')
  }
}

/** The close codes that the server sends, and those of clients that close normally or vanish. */
const knownCloses: ReadonlySet<number> = new Set([1000, 1005, 1006, 1002, 1007, ...Object.values(closeCodes)])

function forbidden(detail: string): SluiceError {
  return new SluiceError('WS_FORBIDDEN', detail)
}
