/**
 * Changes of state as they are written, as server-sent events. A reader gets what happens from its first moment on;
 * one that does not keep up is cut off, because what waits for it would otherwise grow without bound. EventSource
 * connects again by itself; what was missed is in the list of notifications.
 */
import type { ServerResponse } from 'node:http'
import { SluiceError } from '../../errors.ts'
import type { Clock } from '../../ports.ts'
import type { Happening, Ledger } from '../../stages.ts'
import { eventAnswer } from '../answer.ts'
import { operatorScope } from '../identity.ts'
import { basePath, type Route } from '../route.ts'
import { eventsQuery } from '../schema.ts'
import { aheadOf, eventInWallTime } from '../wall-time.ts'

export interface EventRoutesOptions {
  readonly ledger: Pick<Ledger, 'subscribe'>
  readonly clock: Clock
  /** A sign of life for proxies and for finding readers that are gone. @defaultValue 15_000 ms */
  readonly heartbeatMs?: number
  /** What may wait for one reader before it is cut off. @defaultValue 1_048_576 bytes */
  readonly backlogMaxBytes?: number
  /** Of one tenant; one more is refused. @defaultValue 50 */
  readonly readersMaxOfTenant?: number
  /** Of all; above it the oldest of the tenant with the most has to go. @defaultValue 500 */
  readonly readersMax?: number
}

export interface EventRoutes {
  readonly routes: readonly Route[]
  /** Ends all streams. */
  close(): void
}

/** Asked of a tenant that has all its streams open. */
const fullRetryAfterMs = 5_000

export function createEventRoutes(options: EventRoutesOptions): EventRoutes {
  const { ledger, clock, heartbeatMs = 15_000, backlogMaxBytes = 1_048_576 } = options
  const { readersMaxOfTenant = 50, readersMax = 500 } = options
  /** In the order of their coming. */
  const readers = new Set<Reader>()
  /** How many each tenant has that has any. */
  const counts = new Map<string, number>()
  let unsubscribe: (() => void) | undefined
  let stopBeating: (() => void) | undefined

  function beat(): void {
    for (const reader of readers) reader.send(':\n\n')
    stopBeating = clock.at(clock.now() + heartbeatMs, beat)
  }

  function publish(happening: Happening): void {
    let text: string | undefined
    for (const reader of readers) {
      if (reader.tenant !== undefined && reader.tenant !== happening.notification.tenant) continue
      text ??= eventText(happening, aheadOf(clock))
      reader.send(text)
    }
  }

  function add(reader: Reader): void {
    if (readers.size === 0) {
      unsubscribe = ledger.subscribe(publish)
      stopBeating = clock.at(clock.now() + heartbeatMs, beat)
    }
    readers.add(reader)
    count(reader.owner, 1)
    if (readers.size > readersMax) oldestOfTheMost()?.end()
  }

  function remove(reader: Reader): void {
    if (!readers.delete(reader)) return
    count(reader.owner, -1)
    if (readers.size > 0) return
    unsubscribe?.()
    stopBeating?.()
  }

  function count(tenant: string, by: 1 | -1): void {
    const left = (counts.get(tenant) ?? 0) + by
    if (left === 0) counts.delete(tenant)
    else counts.set(tenant, left)
  }

  /** So that nobody loses a stream to a tenant that has more of them. */
  function oldestOfTheMost(): Reader | undefined {
    let most: string | undefined
    for (const [tenant, held] of counts) if (held > (counts.get(most ?? '') ?? 0)) most = tenant
    return [...readers].find(({ owner, isEnding }) => owner === most && !isEnding)
  }

  function checkRoom(tenant: string): void {
    if ((counts.get(tenant) ?? 0) < readersMaxOfTenant) return
    throw new SluiceError(
      'REQUEST_LIMIT_EXCEEDED',
      `This tenant has ${readersMaxOfTenant} event streams open already, and may have no more.`,
      { retryAfterMs: fullRetryAfterMs },
    )
  }

  const route: Route = {
    method: 'GET',
    path: `${basePath}/events`,
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
      const { tenant } = request.query as { tenant?: string }
      const { caller } = request
      const asOperator = caller.scopes.has(operatorScope) && caller.asTenant !== true
      checkRoom(caller.tenant)
      reply.hijack()
      reply.raw.writeHead(200, {
        'content-type': 'text/event-stream',
        'cache-control': 'no-store',
        'x-accel-buffering': 'no',
      })
      const reader = new Reader({
        response: reply.raw,
        owner: caller.tenant,
        tenant: asOperator ? tenant : caller.tenant,
        backlogMaxBytes,
      })
      reply.raw.on('close', () => remove(reader))
      // A connection that breaks while it is written to has nobody left to tell.
      reply.raw.on('error', () => remove(reader))
      reader.send(': connected\n\n')
      add(reader)
      return reply
    },
  }

  return {
    routes: [route],
    close() {
      for (const reader of readers) reader.end()
    },
  }
}

interface ReaderOptions {
  readonly response: ServerResponse
  readonly owner: string
  readonly tenant: string | undefined
  readonly backlogMaxBytes: number
}

/** One connection. What happens in one turn of the event loop is written at once. */
class Reader {
  /** The tenant that asked for it. */
  readonly owner: string
  /** Whose changes it gets; undefined: everybody's. */
  readonly tenant: string | undefined
  readonly #response: ServerResponse
  readonly #backlogMaxBytes: number
  #pending = ''

  constructor({ response, owner, tenant, backlogMaxBytes }: ReaderOptions) {
    this.#response = response
    this.owner = owner
    this.tenant = tenant
    this.#backlogMaxBytes = backlogMaxBytes
  }

  get isEnding(): boolean {
    return this.#response.writableEnded
  }

  send(text: string): void {
    if (this.#response.destroyed) return
    if (this.#pending === '') setImmediate(() => this.#flush())
    this.#pending += text
  }

  end(): void {
    this.#flush()
    this.#response.end()
  }

  #flush(): void {
    const text = this.#pending
    this.#pending = ''
    if (text === '' || this.#response.destroyed || this.#response.writableEnded) return
    this.#response.write(text)
    if (this.#response.writableLength > this.#backlogMaxBytes) this.#response.destroy()
  }
}

function eventText({ notification, events }: Happening, aheadMs: number): string {
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
    text += `event: state\ndata: ${JSON.stringify({ ...about, ...eventAnswer(eventInWallTime(event, aheadMs)) })}\n\n`
  }
  return text
}
