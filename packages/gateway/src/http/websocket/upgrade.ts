/**
 * Upgrades an HTTP request to a WebSocket: authentication, limits of connections, and the handshake. A refusal
 * before the handshake is a problem over HTTP like any other; only a connection above the limit of its tenant
 * is accepted and closed at once, so that a browser can read the reason.
 */
import type { IncomingMessage, Server } from 'node:http'
import type { Duplex } from 'node:stream'
import { type WebSocket, WebSocketServer } from 'ws'
import { isStateAway, SluiceError } from '../../errors.ts'
import type { RoomState } from '../../ports/tenants.ts'
import type { Clock } from '../../ports.ts'
import { type Authenticate, type Identity, loopbackIdentity } from '../identity.ts'
import { asSluiceError, refuseSocket } from '../problem.ts'
import { refuseRepeated } from '../single-headers.ts'
import { invalidRequest } from '../validation.ts'
import { Budget } from './budget.ts'
import { Connection } from './connection.ts'
import { Deadlines } from './deadlines.ts'
import { Flusher } from './flusher.ts'
import type { WebSocketHub } from './hub.ts'
import { closeCodes } from './messages.ts'
import { withToken } from './request.ts'

export interface WebSocketBounds {
  /** Bytes of one frame or message of a client at most. @defaultValue 65_536 bytes */
  readonly messageMaxBytes: number
  /** Subscriptions of one connection at most. @defaultValue 50 */
  readonly subscriptionsMax: number
  /** Frames per second that one connection may send; more are read later. @defaultValue 1_000 */
  readonly framesPerSecond: number
  /** Published messages of one tenant at most that wait for its rate. @defaultValue 1_000 */
  readonly waitingMax: number
  /** Bytes at most that wait for a client that does not read. @defaultValue 1_048_576 bytes */
  readonly unreadMaxBytes: number
  /** Interval of heartbeats; a client that answers none is disconnected at the next. @defaultValue 30_000 ms */
  readonly heartbeatMs: number
  /** Connections of all tenants together at most, in this process. @defaultValue 8_000 */
  readonly connectionsMax: number
}

export interface WebSocketsOptions {
  readonly config: WebSocketBounds
  readonly hub: WebSocketHub
  /** Connections of one tenant at most. */
  readonly connectionsMaxOf: (tenant: string) => number
  /** Counts the connections of each tenant, as what waits. */
  readonly connectionCounts: Pick<RoomState, 'take'>
  /** Absent: no keys, loopback only. */
  readonly authenticate?: Authenticate
  readonly clock: Clock
  readonly onError: (error: unknown) => void
}

export interface WebSockets {
  /** Handles the upgrades of a server. */
  attach(server: Server): void
  /**
   * Sends the waiting frames, closes every connection with 1001, and resolves when they are closed or the time
   * is over.
   */
  close(withinMs: number): Promise<void>
}

/** An upgrade that is authenticated; `giveBack` is absent where its tenant has no place left. */
interface Admitted {
  readonly identity: Identity
  readonly giveBack: (() => void) | undefined
}

const onePlace = { queue: 0, critical: 0, waiting: 1 }
/** Upgrades at most that wait for the check of their token. */
const pendingMax = 1_000
/** The read budget of a tenant, as a multiple of that of one connection. */
const tenantShare = 10
/** A refused connection stays open this long, so that the client can read the reason. */
const refusedMs = 1_000
/** Refused connections of one tenant at most that stay open so. */
const refusedMax = 100
/**
 * Intervals of a graceful shutdown: the check whether all frames were sent, and the time reserved for closing.
 */
const drainCheckMs = 20
const closingMsMax = 2_000

export function createWebSockets(options: WebSocketsOptions): WebSockets {
  const { config, hub, clock, connectionsMaxOf, connectionCounts } = options
  const authenticate = options.authenticate ?? loopbackIdentity
  const keyless = options.authenticate === undefined
  const flusher = new Flusher(clock)
  const deadlines = new Deadlines(clock)
  const connections = new Set<Connection>()
  const budgets = new WeakMap<object, Budget>()
  let pending = 0
  let closing = false
  let onEmpty: (() => void) | undefined

  const handshakes = new WebSocketServer({
    noServer: true,
    clientTracking: false,
    maxPayload: config.messageMaxBytes,
    // Compressed frames could be a thousand times larger than they look, and cost more than they save.
    perMessageDeflate: false,
    // One frame of a connection in each turn of the event loop, whatever it has sent.
    allowSynchronousEvents: false,
    // Pongs are sent by Connection, so that they too are bounded for a client that does not read.
    autoPong: false,
    handleProtocols: (protocols) => (protocols.has('sluice') ? 'sluice' : false),
  })
  handshakes.on('wsClientError', (error: Error, socket: Duplex) => {
    refuse(socket, invalidRequest([{ path: '/', message: `is no WebSocket handshake: ${error.message}` }]))
  })

  function refuse(socket: Duplex, error: SluiceError): void {
    hub.refuse(error.code)
    refuseSocket(socket, error)
  }

  async function upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    const onError = (): void => void socket.destroy()
    socket.on('error', onError)
    pending += 1
    try {
      const admitted = await admit(request)
      // A client that has gone meanwhile is not upgraded, and gives back its place.
      socket.once('close', () => admitted.giveBack?.())
      if (socket.destroyed) admitted.giveBack?.()
      socket.off('error', onError)
      handshakes.handleUpgrade(request, socket, head, (opened) => accept(opened, socket, admitted))
    } catch (error) {
      const known = asSluiceError(error)
      if (known.status === 500) options.onError(error)
      refuse(socket, known)
    } finally {
      pending -= 1
    }
  }

  async function admit(request: IncomingMessage): Promise<Admitted> {
    if (closing) throw unavailable('The gateway is shutting down.')
    if (pending > pendingMax) throw unavailable('Too many connections are being opened at this moment.')
    refuseRepeated(request.rawHeaders)
    const identity = await authenticate(withToken(request.headers))
    if (connections.size >= config.connectionsMax) throw unavailable('This gateway has no connection left.')
    const giveBack = await takePlace(identity.tenant)
    if (giveBack === undefined && hub.room(identity.tenant).refused >= refusedMax)
      throw unavailable('This tenant has too many connections.')
    return { identity, giveBack }
  }

  /** Takes a place among the connections of a tenant; returns the function that gives it back, if there was one. */
  async function takePlace(tenant: string): Promise<(() => void) | undefined> {
    const bounds = { queueMax: 0, waitingMax: connectionsMaxOf(tenant), bytesMax: 0 }
    try {
      const taken = await connectionCounts.take(tenant, onePlace, bounds)
      return 'giveBack' in taken ? taken.giveBack : undefined
    } catch (error) {
      if (isStateAway(error))
        throw unavailable('The connections of this tenant cannot be counted at present.')
      throw error
    }
  }

  function accept(socket: WebSocket, stream: Duplex, { identity, giveBack }: Admitted): void {
    const { tenant } = identity
    const room = hub.room(tenant)
    if (closing || giveBack === undefined) {
      turnAway(socket, tenant)
      return
    }
    hub.count(tenant, 'connections', 1)
    let budget = budgets.get(room)
    if (budget === undefined) {
      budget = new Budget(config.framesPerSecond * tenantShare)
      budgets.set(room, budget)
    }
    const connection = new Connection({
      ...config,
      socket,
      stream,
      identity,
      anyRecipient: keyless,
      hub,
      flusher,
      deadlines,
      clock,
      budgets: [new Budget(config.framesPerSecond), budget],
      onError: options.onError,
    })
    connections.add(connection)
    socket.once('close', () => {
      connections.delete(connection)
      hub.count(tenant, 'connections', -1)
      if (connections.size === 0) onEmpty?.()
    })
  }

  function turnAway(socket: WebSocket, tenant: string): void {
    const [code, reason] = closing
      ? ([closeCodes.shutdown, 'shutting down'] as const)
      : ([closeCodes.tooMany, 'too many connections of this tenant'] as const)
    hub.count(tenant, 'refused', 1)
    const cancel = clock.at(clock.now() + refusedMs, () => socket.terminate())
    socket.on('error', () => {})
    socket.once('close', () => {
      cancel()
      hub.count(tenant, 'refused', -1)
      hub.closed(String(code))
    })
    socket.close(code, reason)
  }

  return {
    attach(server) {
      server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
        void upgrade(request, socket, head)
      })
    },
    async close(withinMs) {
      closing = true
      const end = clock.now() + withinMs
      const closingMs = Math.min(closingMsMax, withinMs / 4)
      for (const connection of connections) connection.stopReading()
      while (hub.waiting() > 0 && clock.now() < end - closingMs) {
        await new Promise<void>((resolve) => clock.at(clock.now() + drainCheckMs, resolve))
      }
      hub.stop()
      for (const connection of connections) connection.end(closeCodes.shutdown, 'shutting down')
      if (connections.size > 0) {
        await new Promise<void>((resolve) => {
          const cancel = clock.at(Math.min(end, clock.now() + closingMs), resolve)
          onEmpty = () => {
            cancel()
            resolve()
          }
        })
      }
      for (const connection of connections) connection.terminate()
      deadlines.stop()
    },
  }
}

function unavailable(detail: string): SluiceError {
  return new SluiceError('WS_UNAVAILABLE', detail, { retryAfterMs: 1_000 })
}
