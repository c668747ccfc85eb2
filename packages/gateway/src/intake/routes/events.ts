/**
 * Changes of state as they are written, as server-sent events. A reader gets what happens from its first moment on;
 * one that does not keep up is cut off, because what waits for it would otherwise grow without bound. EventSource
 * connects again by itself; what was missed is in the list of notifications.
 */
import type { ServerResponse } from 'node:http'
import type { Happening, Ledger } from '../../doors.ts'
import type { Clock } from '../../ports.ts'
import { eventAnswer } from '../answer.ts'
import { operatorScope } from '../identity.ts'
import { basePath, type Route } from '../route.ts'
import { eventsQuery } from '../schema.ts'

export interface EventRoutesOptions {
  readonly ledger: Pick<Ledger, 'subscribe'>
  readonly clock: Clock
  /** A sign of life for proxies and for finding readers that are gone. @defaultValue 15_000 ms */
  readonly heartbeatMs?: number
  /** What may wait for one reader before it is cut off. @defaultValue 1_048_576 bytes */
  readonly backlogMaxBytes?: number
  /** Above this the reader that has been here longest has to go. @defaultValue 200 */
  readonly readersMax?: number
}

export interface EventRoutes {
  readonly routes: readonly Route[]
  /** Ends all streams. */
  close(): void
}

export function createEventRoutes(options: EventRoutesOptions): EventRoutes {
  const { ledger, clock, heartbeatMs = 15_000, backlogMaxBytes = 1_048_576, readersMax = 200 } = options
  /** In the order of their coming. */
  const readers = new Set<Reader>()
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
      text ??= eventText(happening)
      reader.send(text)
    }
  }

  function add(reader: Reader): void {
    if (readers.size === 0) {
      unsubscribe = ledger.subscribe(publish)
      stopBeating = clock.at(clock.now() + heartbeatMs, beat)
    }
    readers.add(reader)
    if (readers.size > readersMax) {
      const [longest] = readers
      longest?.end()
    }
  }

  function remove(reader: Reader): void {
    if (!readers.delete(reader) || readers.size > 0) return
    unsubscribe?.()
    stopBeating?.()
  }

  const route: Route = {
    method: 'GET',
    path: `${basePath}/events`,
    summary: 'Changes of state as they happen',
    access: 'caller',
    stream: true,
    query: eventsQuery,
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
      reply.hijack()
      reply.raw.writeHead(200, {
        'content-type': 'text/event-stream',
        'cache-control': 'no-store',
        'x-accel-buffering': 'no',
      })
      const reader = new Reader(reply.raw, asOperator ? tenant : caller.tenant, backlogMaxBytes)
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

/** One connection. What happens in one turn of the event loop is written at once. */
class Reader {
  readonly tenant: string | undefined
  readonly #response: ServerResponse
  readonly #backlogMaxBytes: number
  #pending = ''

  constructor(response: ServerResponse, tenant: string | undefined, backlogMaxBytes: number) {
    this.#response = response
    this.tenant = tenant
    this.#backlogMaxBytes = backlogMaxBytes
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

function eventText({ notification, events }: Happening): string {
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
    text += `event: state\ndata: ${JSON.stringify({ ...about, ...eventAnswer(event) })}\n\n`
  }
  return text
}
