/**
 * Parses large bodies in a worker thread: some 20 ms a mebibyte of many small values, for which no other
 * request has to wait. One body is parsed at a time, and tenants take turns; the queue is bounded by the
 * requests in progress. The thread starts with the first large body, since many a gateway never gets one.
 */
import { hash } from 'node:crypto'
import { Worker } from 'node:worker_threads'
import { type ErrorCode, type FieldError, SluiceError } from '../errors.ts'
import { threadEnvironment } from '../thread-environment.ts'
import { type BodyParts, joinParts } from './body-parts.ts'

/**
 * Bytes above which a body is parsed in the thread; below, the way there and back takes longer than parsing.
 */
export const largeBytes = 2 ** 17

export interface ToParse {
  readonly bytes: Uint8Array
  readonly withHash: boolean
}

export type Parsed = { readonly parts: BodyParts; readonly hash?: string } | { readonly fault: Fault }

interface Fault {
  /** Absent: a defect. */
  readonly code?: ErrorCode
  readonly detail: string
  readonly errors?: readonly FieldError[]
}

interface ParsedBody {
  readonly value: unknown
  /** SHA-256 of the bytes, where requested. */
  readonly hash?: string
}

export interface BodyParser {
  /** Transfers the bytes to the thread. Throws the errors of `parseJson`, and STORE_UNAVAILABLE once it is closed. */
  parse(tenant: string, bytes: Buffer, withHash: boolean): Promise<ParsedBody>
  /** Ends the thread, and with STORE_UNAVAILABLE all bodies that it has not parsed. */
  close(): Promise<void>
}

interface Waiting extends ToParse {
  readonly resolve: (body: ParsedBody) => void
  readonly reject: (error: Error) => void
}

/** The memory of one request is garbage when it is answered. */
const maxYoungGenerationSizeMb = 16
const retryAfterMs = 1_000

export function createBodyParser(): BodyParser {
  /** The bodies that wait, by tenant, in the order of their turns. */
  const queues = new Map<string, Waiting[]>()
  let worker: Worker | undefined
  let current: Waiting | undefined
  let isClosed = false

  function start(): Worker {
    const started = new Worker(new URL(`./body-worker${import.meta.url.slice(-3)}`, import.meta.url), {
      env: threadEnvironment(),
      // In a checkout the packages of the workspace run from their source; a thread has no hook of the launcher.
      ...(import.meta.url.endsWith('.ts') ? { execArgv: ['--conditions=sluice-source'] } : {}),
      resourceLimits: { maxYoungGenerationSizeMb },
    })
    let failure: Error | undefined
    started.on('message', receive)
    started.on('error', (error: Error) => {
      failure = error
    })
    started.on('exit', () => {
      if (worker === started) worker = undefined
      const error = ended(failure?.message ?? 'it was closed')
      // Only the body in the thread is lost; the next one starts another thread.
      end((waiting) => waiting.reject(error))
    })
    return started
  }

  function receive(parsed: Parsed): void {
    end(({ resolve, reject }) => {
      if ('fault' in parsed) {
        const { code, detail, errors } = parsed.fault
        reject(code === undefined ? new Error(detail) : new SluiceError(code, detail, errors && { errors }))
        return
      }
      const { parts, ...rest } = parsed
      resolve({ value: joinParts(parts), ...rest })
    })
  }

  function end(settle: (waiting: Waiting) => void): void {
    const done = current
    current = undefined
    if (done !== undefined) settle(done)
    next()
  }

  function next(): void {
    if (current !== undefined) return
    if (isClosed) {
      const error = ended('it was closed')
      for (const queue of queues.values()) for (const waiting of queue) waiting.reject(error)
      queues.clear()
      return
    }
    const [turn] = queues
    if (turn === undefined) {
      // The thread keeps the process alive only while an answer is awaited.
      worker?.unref()
      return
    }
    const [tenant, queue] = turn
    current = queue.shift()!
    queues.delete(tenant)
    if (queue.length > 0) queues.set(tenant, queue)
    worker ??= start()
    worker.ref()
    const { bytes, withHash } = current
    const isOwn = bytes.byteLength === bytes.buffer.byteLength
    worker.postMessage({ bytes, withHash } satisfies ToParse, isOwn ? [bytes.buffer as ArrayBuffer] : [])
  }

  return {
    parse(tenant, bytes, withHash) {
      return new Promise((resolve, reject) => {
        const queue = queues.get(tenant)
        const waiting: Waiting = { bytes, withHash, resolve, reject }
        if (queue === undefined) queues.set(tenant, [waiting])
        else queue.push(waiting)
        next()
      })
    },
    async close() {
      isClosed = true
      const closing = worker
      worker = undefined
      await closing?.terminate()
      next()
    },
  }
}

const ended = (why: string): SluiceError =>
  new SluiceError('STORE_UNAVAILABLE', `The thread that parses bodies has ended: ${why}.`, { retryAfterMs })

/** Hashes a body that was parsed on the event loop. */
export const hashOf = (bytes: Buffer): string => hash('sha256', bytes, 'base64url')
