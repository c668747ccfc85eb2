/**
 * The hub of all connections: a room for each tenant, and the counts of all of them. It knows channels and
 * frames but no sockets, so the gateway has it even where no client can connect; connections are added by
 * upgrade.ts, and the provider of the channel `websocket` uses the port `Presence`.
 */
import type { Window } from '@sluice/limits'
import type { Clock, Delivery, Presence } from '../../ports.ts'
import { textFrame } from './frame.ts'
import { Room, type Subscriber } from './room.ts'
import { createThrottle, type Published, type TakenMessages, type ThrottleOptions } from './throttle.ts'

export interface WebSocketHubOptions {
  readonly clock: Pick<Clock, 'now' | 'at'>
  /** Rate limits of a tenant's published messages; none: unlimited. */
  readonly windowsOf: (tenant: string) => readonly Window[]
  /** Each window is extended by this, ms. */
  readonly marginMs: number
  /** Published messages of one tenant at most that wait for its rate. */
  readonly waitingMax: number
  /** The hubs of other processes. @defaultValue this process is alone */
  readonly fleet?: HubFleet
}

/** The hubs of the other processes. */
interface HubFleet {
  /** Counts published messages over all processes. */
  take(tenant: string, ...asked: Parameters<NonNullable<ThrottleOptions['take']>>): Promise<TakenMessages>
  /** Tells the others of a message that was sent to the subscribers here. */
  passOn(tenant: string, channel: string, data: unknown): void
}

/** Counts since the start, and gauges of now; the number of labels is bounded. */
interface WebSocketReport {
  readonly connections: number
  /** Published messages that wait for the rate of their tenant. */
  readonly waiting: number
  readonly published: Readonly<Record<Published, number>>
  /** Frames to subscribers: each published message counts once for each of them. */
  readonly passedOn: number
  /** Messages answered with an error, and refused upgrades and connections, by error code. */
  readonly refused: ReadonlyMap<string, number>
  /** Connections that were closed, by close code. */
  readonly closed: ReadonlyMap<string, number>
}

export interface RecipientName {
  readonly tenant: string
  readonly recipient: string
}

export interface WebSocketHub extends Presence {
  areConnected(recipients: readonly RecipientName[]): readonly boolean[]
  /** The recipients who are connected here. */
  recipients(): readonly RecipientName[]
  room(tenant: string): Room
  subscribe(tenant: string, channel: string, subscriber: Subscriber): void
  /** Answers without a promise where no other process must be asked. */
  publish(tenant: string, channel: string, data: unknown): Published | Promise<Published>
  /** Sends a message that another process has published to the subscribers here. */
  passOn(tenant: string, channel: string, data: unknown): void
  /** Adds an opened or closed connection, or one that was refused and has closed. */
  count(tenant: string, what: 'connections' | 'refused', by: 1 | -1): void
  refuse(code: string): void
  closed(code: string): void
  report(): WebSocketReport
  /** The number of waiting published messages. */
  waiting(): number
  /** Drops the waiting messages. */
  stop(): void
}

/** Bytes at most that wait for the rate of one tenant. */
const waitingBytesMax = 8 * 1_048_576
/** Empty rooms are removed at this many rooms, and then each time they have doubled. */
const roomsMin = 256

const messageFrame = (channel: string, data: unknown): Buffer =>
  textFrame(JSON.stringify({ type: 'message', channel, data }))

/** The prefix of recipients' channels, over which notifications are delivered. */
const personal = 'recipient:'
const channelOf = (recipient: string): string => personal + recipient

/** Returns the recipient of a channel; undefined for other channels. */
export function recipientOf(channel: string): string | undefined {
  return channel.startsWith(personal) ? channel.slice(personal.length) : undefined
}

export function createWebSocketHub(options: WebSocketHubOptions): WebSocketHub {
  const { clock, marginMs, waitingMax, fleet } = options
  const rooms = new Map<string, Room>()
  let roomsMax = roomsMin
  const listeners = new Set<(tenant: string, recipient: string) => void>()
  const published = { sent: 0, throttled: 0, full: 0 }
  const refused = new Map<string, number>()
  const closed = new Map<string, number>()
  let passedOn = 0
  let connections = 0

  function room(tenant: string): Room {
    let known = rooms.get(tenant)
    if (known === undefined) {
      if (rooms.size >= roomsMax) forgetEmpty()
      known = new Room(
        createThrottle({
          clock,
          windows: options.windowsOf(tenant),
          marginMs,
          waitingMax,
          waitingBytesMax,
          ...(fleet && { take: (rules, count) => fleet.take(tenant, rules, count) }),
        }),
      )
      rooms.set(tenant, known)
    }
    return known
  }

  function forgetEmpty(): void {
    for (const [tenant, each] of rooms) if (each.isEmpty) rooms.delete(tenant)
    roomsMax = Math.max(roomsMin, 2 * rooms.size)
  }

  const waiting = (): number => [...rooms.values()].reduce((sum, { throttle }) => sum + throttle.size, 0)

  return {
    room,
    waiting,
    subscribe(tenant, channel, subscriber) {
      const first = room(tenant).subscribe(channel, subscriber)
      const recipient = recipientOf(channel)
      if (!first || recipient === undefined) return
      for (const listener of listeners) listener(tenant, recipient)
    },
    publish(tenant, channel, data) {
      const outcome = room(tenant).publish(channel, messageFrame(channel, data), (reached) => {
        passedOn += reached
        fleet?.passOn(tenant, channel, data)
      })
      const count = (known: Published): Published => {
        published[known] += 1
        return known
      }
      return outcome instanceof Promise ? outcome.then(count) : count(outcome)
    },
    passOn(tenant, channel, data) {
      const reached = rooms.get(tenant)?.subscribers(channel)
      if (reached === undefined) return
      passedOn += reached.size
      const frame = messageFrame(channel, data)
      for (const subscriber of reached) subscriber.send(frame)
    },
    count(tenant, what, by) {
      const of = room(tenant)
      of[what] += by
      if (what === 'connections') connections += by
    },
    refuse: (code) => add(refused, code),
    closed: (code) => add(closed, code),
    report: () => ({
      connections,
      waiting: waiting(),
      published: { ...published },
      passedOn,
      refused,
      closed,
    }),
    stop() {
      for (const { throttle } of rooms.values()) throttle.stop()
    },
    areConnected: (recipients) =>
      recipients.map(
        ({ tenant, recipient }) => rooms.get(tenant)?.subscribers(channelOf(recipient)) !== undefined,
      ),
    recipients() {
      const found: RecipientName[] = []
      for (const [tenant, each] of rooms)
        for (const channel of each.channels()) {
          const recipient = recipientOf(channel)
          if (recipient !== undefined) found.push({ tenant, recipient })
        }
      return found
    },
    onConnect(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    deliver(tenant, recipient, data, signal) {
      const subscribers = rooms.get(tenant)?.subscribers(channelOf(recipient))
      if (subscribers === undefined) return Promise.resolve('absent')
      passedOn += subscribers.size
      return firstWritten(subscribers, messageFrame(channelOf(recipient), data), signal)
    },
  }
}

/** Resolves with the first socket that took the frame, or when all of them have failed. */
function firstWritten(
  subscribers: ReadonlySet<Subscriber>,
  frame: Buffer,
  signal: AbortSignal,
): Promise<Delivery> {
  return new Promise((resolve) => {
    let open = subscribers.size
    signal.addEventListener('abort', () => resolve('unread'), { once: true })
    for (const subscriber of [...subscribers]) {
      subscriber.send(frame, (taken) => {
        open -= 1
        if (taken) resolve('written')
        else if (open === 0) resolve('absent')
      })
    }
  })
}

function add(counts: Map<string, number>, word: string): void {
  counts.set(word, (counts.get(word) ?? 0) + 1)
}
