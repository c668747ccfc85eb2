/**
 * One request of a connection at a time. Answers leave in the order of the requests anyway (RFC 9112, section 9.3.2);
 * so what a client sends behind its first waits here, and as long as something waits the connection is not read. What
 * Node had read at once, up to 64 KiB, is parsed already; all that comes after it stays with the kernel, and then with
 * the client.
 */
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

export interface PipelinesOptions {
  readonly handle: RequestListener
  /** Requests of one connection that wait behind the one under way. @defaultValue 256 */
  readonly waitingMax?: number
  /** The same on all connections together. @defaultValue 20_000 */
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
  /** On all connections. */
  waiting: number
}

const pipelines = new WeakMap<Socket, Pipeline>()

/** Whether something waits behind the request that is under way: then its answer must not end the connection. */
export const isFollowed = (socket: Socket): boolean => pipelines.get(socket)?.isFollowed ?? false

/**
 * Whether a connection whose time for a request is over is excused: it was not read on because something waits on it.
 * Then it has as long again from when it is read on, and `late` is called if that is not enough either.
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
    // What is late is the body of the last one, or the one behind it.
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

  /** Also where the connection is gone. */
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
    // Read on while the last one is worked on, so that there is no pause after it.
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
    // What comes after it is never looked at, and a client can tell: it is not answered (RFC 9112, section 9.6).
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
