/**
 * One reader of server-sent events. All events of one turn of the event loop are written at once; a reader that does
 * not keep up is disconnected, because its backlog would otherwise grow without bound.
 */
import type { ServerResponse } from 'node:http'
import type { FastifyReply, FastifyRequest } from 'fastify'

export class EventStream {
  readonly #response: ServerResponse
  readonly #backlogMaxBytes: number
  #pending = ''

  /** @param backlogMaxBytes bytes that wait for the reader before it is disconnected */
  constructor(response: ServerResponse, backlogMaxBytes = 1_048_576) {
    this.#response = response
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

/** Takes the answer over from Fastify and begins it; `onClose` is called once, when the reader is gone. */
export function openEventStream(
  request: FastifyRequest,
  reply: FastifyReply,
  onClose: () => void,
): ServerResponse {
  reply.hijack()
  reply.raw.writeHead(200, {
    'content-type': 'text/event-stream',
    'x-request-id': request.id,
    'cache-control': 'no-store',
    'x-accel-buffering': 'no',
  })
  let isOpen = true
  const close = (): void => {
    if (isOpen) onClose()
    isOpen = false
  }
  reply.raw.on('close', close)
  // An error of a connection that breaks during a write has no reader left.
  reply.raw.on('error', close)
  return reply.raw
}

/** The text of one event. */
export const eventText = (event: string, data: object, id?: string | number): string =>
  `event: ${event}\n${id === undefined ? '' : `id: ${id}\n`}data: ${JSON.stringify(data)}\n\n`
