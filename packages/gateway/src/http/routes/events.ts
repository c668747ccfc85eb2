/**
 * Server-sent events of state changes, as they are committed. A reader gets the events from its connection on;
 * a slow one is disconnected, because its backlog would otherwise grow without bound. EventSource reconnects by
 * itself; missed changes are in the list of notifications.
 */
import type { ServerResponse } from 'node:http'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { isStateAway, SluiceError } from '../../errors.ts'
import type { RoomState } from '../../ports/tenants.ts'
import type { Clock } from '../../ports.ts'
import { eventAnswer } from '../answer.ts'
import { EventStream, eventText, openEventStream } from '../event-stream.ts'
import type { ChangeFeed, StateChange } from '../fleet-changes.ts'
import { mayRead } from '../identity.ts'
import { basePath, type Route } from '../route.ts'
import { type EventsQuery, eventsQuery } from '../schema.ts'
import { aheadOf, eventInWallTime } from '../wall-time.ts'

export interface EventRoutesOptions {
  readonly changes: ChangeFeed
  readonly clock: Clock
  /** Interval of heartbeats, for proxies and to find readers that are gone. @defaultValue 15_000 ms */
  readonly heartbeatMs?: number
  /** Bytes that wait for one reader before it is disconnected. @defaultValue 1_048_576 bytes */
  readonly backlogMaxBytes?: number
  /** Streams of one tenant at most; one more is refused. @defaultValue 50 */
  readonly readersMaxOfTenant?: number
  /**
   * Streams of all tenants at most; above it the oldest stream of the tenant with the most is ended.
   * @defaultValue 500
   */
  readonly readersMax?: number
  /** Counts the streams of each tenant over several processes, as what waits. @defaultValue this one alone has them */
  readonly places?: Pick<RoomState, 'take'> | undefined
}

export interface EventRoutes {
  readonly routes: readonly Route[]
  /** Ends all streams. */
  close(): void
}

/** The Retry-After of a tenant that has all its streams open, ms. */
const fullRetryAfterMs = 5_000
const onePlace = { queue: 0, critical: 0, waiting: 1 }

export function createEventRoutes(options: EventRoutesOptions): EventRoutes {
  const { changes, clock, heartbeatMs = 15_000, backlogMaxBytes = 1_048_576 } = options
  const { readersMaxOfTenant = 50, readersMax = 500, places } = options
  /** In the order of connection. */
  const readers = new Set<Reader>()
  /** The number of streams by tenant. */
  const counts = new Map<string, number>()
  let unsubscribe: (() => void) | undefined
  let stopBeating: (() => void) | undefined

  function beat(): void {
    for (const reader of readers) reader.send(':\n\n')
    stopBeating = clock.at(clock.now() + heartbeatMs, beat)
  }

  function publish(happening: StateChange): void {
    let text: string | undefined
    for (const reader of readers) {
      if (!reader.wants(happening)) continue
      text ??= stateText(happening, aheadOf(clock))
      reader.send(text)
    }
  }

  function add(reader: Reader): void {
    if (readers.size === 0) {
      unsubscribe = changes.subscribe(publish)
      stopBeating = clock.at(clock.now() + heartbeatMs, beat)
    }
    readers.add(reader)
    count(reader.owner, 1)
    if (readers.size > readersMax) oldestOfTheMost()?.end()
  }

  /** Names the tenants that are read, where other processes have to know; resolves when they do. */
  async function watch(): Promise<void> {
    const tenants = new Set(Array.from(readers, ({ tenant }) => tenant))
    await changes.watchTenants?.(tenants.has(undefined) ? undefined : ([...tenants] as readonly string[]))
  }

  function remove(reader: Reader): void {
    if (!readers.delete(reader)) return
    count(reader.owner, -1)
    void watch()
    if (readers.size > 0) return
    unsubscribe?.()
    stopBeating?.()
  }

  function count(tenant: string, by: 1 | -1): void {
    const left = (counts.get(tenant) ?? 0) + by
    if (left === 0) counts.delete(tenant)
    else counts.set(tenant, left)
  }

  /**
   * Finds the oldest stream of the tenant with the most, so that no tenant loses a stream to one that has more
   * of them.
   */
  function oldestOfTheMost(): Reader | undefined {
    let most: string | undefined
    for (const [tenant, held] of counts) if (held > (counts.get(most ?? '') ?? 0)) most = tenant
    return [...readers].find(({ owner, isEnding }) => owner === most && !isEnding)
  }

  const full = (): SluiceError =>
    new SluiceError(
      'REQUEST_LIMIT_EXCEEDED',
      `This tenant has ${readersMaxOfTenant} event streams open already, and may have no more.`,
      { retryAfterMs: fullRetryAfterMs },
    )

  function checkRoom(tenant: string): void {
    if ((counts.get(tenant) ?? 0) >= readersMaxOfTenant) throw full()
  }

  /** Takes a place among the streams that all processes have of a tenant; returns the function that gives it back. */
  async function takePlace(tenant: string, { take }: Pick<RoomState, 'take'>): Promise<() => void> {
    const bounds = { queueMax: 0, waitingMax: readersMaxOfTenant, bytesMax: 0 }
    try {
      const taken = await take(tenant, onePlace, bounds)
      if ('giveBack' in taken) return taken.giveBack
    } catch (error) {
      if (!isStateAway(error)) throw error
      // Nobody can count them together: what this process has is bounded all the same.
      checkRoom(tenant)
      return () => {}
    }
    throw full()
  }

  function openReader(request: FastifyRequest, reply: FastifyReply, giveBack: () => void): void {
    const { tenant, notification, recipient } = request.query as EventsQuery
    const { caller } = request
    const asOperator = mayRead(caller) && caller.asTenant !== true
    const response = openEventStream(request, reply, () => {
      remove(reader)
      giveBack()
    })
    const reader = new Reader({
      response,
      owner: caller.tenant,
      wanted: { tenant: asOperator ? tenant : caller.tenant, notification, recipient },
      backlogMaxBytes,
    })
    add(reader)
    void watch().then(() => reader.send(': connected\n\n'))
  }

  const route: Route = {
    method: 'GET',
    path: `${basePath}/events`,
    operation: 'streamEvents',
    tag: 'Events',
    summary: 'Changes of state as they happen',
    access: 'caller',
    stream: true,
    query: eventsQuery,
    problems: ['REQUEST_LIMIT_EXCEEDED'],
    answers: {
      200: {
        description:
          "Server-sent events named `state`. A tenant's own; an operator gets all, or those of `tenant`.",
        type: 'text/event-stream',
      },
    },
    handle(request, reply) {
      const { tenant } = request.caller
      if (places === undefined) {
        checkRoom(tenant)
        openReader(request, reply, () => {})
        return reply
      }
      return takePlace(tenant, places).then((giveBack) => {
        if (!reply.raw.destroyed) return openReader(request, reply, giveBack)
        giveBack()
        reply.hijack()
      })
    },
  }

  function endAll(): void {
    for (const reader of readers) reader.end()
  }
  // A reader that connects again knows that it may have missed changes.
  changes.onLost?.(endAll)

  return { routes: [route], close: endAll }
}

interface ReaderOptions {
  readonly response: ServerResponse
  readonly owner: string
  readonly wanted: Wanted
  readonly backlogMaxBytes: number
}

/** The changes that a stream gets; an undefined field selects all. */
interface Wanted {
  readonly tenant: string | undefined
  readonly notification: string | undefined
  readonly recipient: string | undefined
}

class Reader extends EventStream {
  /** The tenant that opened it. */
  readonly owner: string
  readonly #wanted: Wanted

  /** The tenant whose changes it gets; undefined for all. */
  get tenant(): string | undefined {
    return this.#wanted.tenant
  }

  constructor({ response, owner, wanted, backlogMaxBytes }: ReaderOptions) {
    super(response, backlogMaxBytes)
    this.owner = owner
    this.#wanted = wanted
  }

  wants({ notification: { tenant, id, to } }: StateChange): boolean {
    const { tenant: ofTenant = tenant, notification = id, recipient = to.id } = this.#wanted
    return ofTenant === tenant && notification === id && recipient === to.id
  }
}

function stateText({ notification, events }: StateChange, aheadMs: number): string {
  const { id, tenant, module, to, channel, category, priority, template, actor } = notification
  const about = {
    notificationId: id,
    tenant,
    module,
    recipient: to.id,
    channel,
    category,
    priority,
    template,
    actor,
  }
  let text = ''
  for (const event of events) {
    text += eventText('state', { ...about, ...eventAnswer(eventInWallTime(event, aheadMs)) })
  }
  return text
}
