/**
 * Reads beside the writer: a connection in a thread of its own, so that a list that takes milliseconds delays no
 * commit. SQLite shows it the commits that precede the question, so a caller sees its own acknowledged commit. The
 * thread starts with the first question, since many gateways never list, and restarts after an unexpected end.
 */
import { Worker } from 'node:worker_threads'
import { SluiceError } from '../../../errors.ts'
import { threadEnvironment } from '../../../thread-environment.ts'
import { retryAfterMs } from '../sqlite-errors.ts'
import type { Fault } from './engine.ts'
import { errorOf } from './engine.ts'
import type { Reads } from './reads.ts'

export interface ReaderData {
  readonly path: string
  /** The maximum memory for pages, MiB. */
  readonly cacheMib: number
}

export interface Asked {
  readonly id: number
  readonly name: keyof Reads
  readonly args: readonly unknown[]
}

export type Replied =
  | { readonly id: number; readonly value: unknown }
  | { readonly id: number; readonly fault: Fault }

export interface Reader {
  /** Asks a question. Rejects with the reader's error, which `onFault` gets first. */
  read<Name extends keyof Reads>(
    name: Name,
    ...args: Parameters<Reads[Name]>
  ): Promise<ReturnType<Reads[Name]>>
  close(): Promise<void>
}

interface Waiting {
  readonly resolve: (value: never) => void
  readonly reject: (error: Error) => void
}

const cacheMib = 8
/** A page of rows is garbage as soon as it is posted. */
const maxYoungGenerationSizeMb = 8

export function createReader(path: string, onFault: (fault: Fault) => void): Reader {
  let worker: Worker | undefined
  let lastId = 0
  /** Pending questions; intake bounds their number for each tenant (tenant-bulkhead.ts). */
  const waiting = new Map<number, Waiting>()

  function start(): Worker {
    const workerData: ReaderData = { path, cacheMib }
    const started = new Worker(new URL(`./reader-worker${import.meta.url.slice(-3)}`, import.meta.url), {
      workerData,
      env: threadEnvironment(),
      resourceLimits: { maxYoungGenerationSizeMb },
    })
    let failure: Error | undefined
    started.on('message', receive)
    started.on('error', (error: Error) => {
      failure = error
    })
    started.on('exit', () => {
      if (worker === started) worker = undefined
      const why = failure?.message ?? 'it was closed'
      const message = `The store ${path} has lost the thread that reads: ${why}.`
      for (const { reject } of waiting.values())
        reject(new SluiceError('STORE_UNAVAILABLE', message, { retryAfterMs }))
      waiting.clear()
    })
    return started
  }

  function receive(reply: Replied): void {
    const request = waiting.get(reply.id)
    waiting.delete(reply.id)
    // Only pending questions keep the process alive.
    if (waiting.size === 0) worker?.unref()
    if ('fault' in reply) {
      onFault(reply.fault)
      request?.reject(errorOf(reply.fault))
    } else request?.resolve(reply.value as never)
  }

  return {
    read(name, ...args) {
      return new Promise((resolve, reject) => {
        worker ??= start()
        if (waiting.size === 0) worker.ref()
        lastId += 1
        waiting.set(lastId, { resolve, reject })
        worker.postMessage({ id: lastId, name, args } satisfies Asked)
      })
    },
    async close() {
      const closing = worker
      worker = undefined
      await closing?.terminate()
    },
  }
}
