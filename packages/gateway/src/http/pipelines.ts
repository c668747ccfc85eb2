/**
 * Handles one request of a connection at a time. Answers leave in the order of the requests anyway (RFC 9112,
 * section 9.3.2), so pipelined requests wait here, and as long as one waits the connection is not read:
 * backpressure. Bytes that Node had read at once, up to 64 KiB, are parsed already; all later ones stay with
 * the kernel, and then with the client.
 */
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

export interface PipelinesOptions {
  readonly handle: RequestListener
  /** Pipelined requests of one connection that wait at most. @defaultValue 256 */
  readonly waitingMax?: number
  /** Pipelined requests of all connections that wait at most. @defaultValue 20_000 */
  readonly waitingMaxOfAll?: number
}

interface Asked {
  readonly request: IncomingMessage
  readonly response: ServerResponse
}

interface Bounds {
  readonly handle: RequestListener
  readonly waitingMax: number
  readonly waitingMaxOfAll: number
  /** Requests that wait on all connections. */
  waiting: number
}

const pipelines = new WeakMap<Socket, Pipeline>()

/** True where another request waits behind the current one: its answer must not end the connection. */
export const isFollowed = (socket: Socket): boolean => pipelines.get(socket)?.isFollowed ?? false

/**
 * True where a connection may exceed its deadline for a request: it was not read because a request waits on it.
 * It then has as long again from when reading resumes, and `late` is called if that is not enough either.
 */
export const isExcused = (socket: Socket, againMs: number, late: () => void): boolean =>
  pipelines.get(socket)?.excuse(againMs, late) ?? false

export function createPipelines(options: PipelinesOptions): RequestListener {
  const { handle, waitingMax = 256, waitingMaxOfAll = 20_000 } = options
  const bounds: Bounds = { handle, waitingMax, waitingMaxOfAll, waiting: 0 }
  return (request, response) => {
    const { socket } = request
    let pipeline = pipelines.get(socket)
    if (pipeline === undefined) {
      pipeline = new Pipeline(socket, bounds)
      pipelines.set(socket, pipeline)
    }
    pipeline.take(request, response)
  }
}

class Pipeline {
  readonly #socket: Socket
  readonly #bounds: Bounds
  #isBusy = false
  #waiting: Asked[] | undefined
  /** The last request to be answered is known. */
  #isEnding = false
  #taken = 0
  #latest: IncomingMessage | undefined

  constructor(socket: Socket, bounds: Bounds) {
    this.#socket = socket
    this.#bounds = bounds
  }

  get isFollowed(): boolean {
    return this.#waiting !== undefined && this.#waiting.length > 0
  }

  excuse(againMs: number, late: () => void): boolean {
    if (!this.isFollowed) return false
    // The late part is the body of the last request, or the next request.
    const due = this.#latest!.complete ? this.#taken + 1 : this.#taken
    let wasRead = false
    const look = (): void => {
      const isThere = this.#taken > due || (this.#taken === due && this.#latest!.complete)
      if (isThere || this.#socket.destroyed) return
      if (wasRead) late()
      else setTimeout(look, againMs).unref()
      wasRead = !this.isFollowed
    }
    look()
    return true
  }

  take(request: IncomingMessage, response: ServerResponse): void {
    this.#taken += 1
    this.#latest = request
    if (this.#isBusy) this.#hold(request, response)
    else this.#start(request, response)
  }

  #start(request: IncomingMessage, response: ServerResponse): void {
    this.#isBusy = true
    response.on('close', this.#onAnswered)
    this.#bounds.handle(request, response)
  }

  /** Also called where the connection is closed. */
  readonly #onAnswered = (): void => {
    this.#isBusy = false
    const waiting = this.#waiting
    if (waiting === undefined || waiting.length === 0) return
    if (this.#socket.destroyed) {
      this.#bounds.waiting -= waiting.length
      waiting.length = 0
      return
    }
    const { request, response } = waiting.shift()!
    this.#bounds.waiting -= 1
    // Reading resumes while the last request is handled, so that there is no pause after it.
    if (waiting.length === 0 && !this.#isEnding) this.#socket.resume()
    this.#start(request, response)
  }

  #hold(request: IncomingMessage, response: ServerResponse): void {
    if (this.#isEnding) return
    this.#waiting ??= this.#beginWaiting()
    if (this.#waiting.length === 0) this.#socket.pause()
    this.#waiting.push({ request, response })
    const bounds = this.#bounds
    bounds.waiting += 1
    if (this.#waiting.length < bounds.waitingMax && bounds.waiting < bounds.waitingMaxOfAll) return
    // Later requests are never handled, and a client can tell: they are not answered (RFC 9112, section 9.6).
    this.#isEnding = true
    response.setHeader('connection', 'close')
  }

  #beginWaiting(): Asked[] {
    const waiting: Asked[] = []
    // Node itself resumes after every request that it has parsed.
    this.#socket.on('resume', () => {
      if (waiting.length > 0) this.#socket.pause()
    })
    return waiting
  }
}
