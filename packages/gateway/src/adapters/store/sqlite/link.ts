/**
 * The way to the engine: straight, or to a thread of its own, where neither an fsync nor a long question stops the
 * owner's event loop. Either way messages are handled in the order in which they were sent.
 */
import { Worker } from 'node:worker_threads'
import { SluiceError } from '../../../errors.ts'
import type { DatabaseOptions } from './database.ts'
import { openDatabase } from './database.ts'
import type { Engine, Fault, Questions, Result } from './engine.ts'
import { createEngine, errorOf, faultOf } from './engine.ts'
import { diskFault, retryAfterMs } from './faults.ts'
import type { Tape } from './tape.ts'

export interface Link {
  /** One result a tape. Rejects only where the engine is gone. */
  write(tapes: readonly Tape[]): Promise<readonly Result[]>
  /** Rejects with what the engine raised; `onFault` hears of it first. */
  ask<Name extends keyof Questions>(
    name: Name,
    ...args: Parameters<Questions[Name]>
  ): Promise<ReturnType<Questions[Name]>>
  /** Asks `close` and gives the file up. */
  close(): Promise<void>
}

export interface LinkOptions extends DatabaseOptions {
  /** The instant of opening. */
  readonly now: number
  readonly onFault: (fault: Fault) => void
}

/** What a thread begins with. */
export interface ThreadData extends Omit<LinkOptions, 'onFault'> {
  readonly verify: boolean
}

/** What the owner sends; `id` comes back with the answer. */
export type Sent =
  | { readonly id: number; readonly tapes: readonly Tape[] }
  | { readonly id: number; readonly name: keyof Questions; readonly args: readonly unknown[] }

/** The id under which a thread says why it cannot start. */
export const startId = 0

/** What comes back. `results` are left out where every change was applied: nearly always. */
export interface Received {
  readonly id: number
  readonly results?: readonly Result[]
  readonly value?: unknown
  readonly fault?: Fault
}

export function openStraight(options: LinkOptions): Link {
  const { path, now, onFault } = options
  const { db, small, unlock } = openDatabase(options)
  let engine: Engine
  try {
    engine = createEngine({ db, path, now, verify: small })
  } catch (error) {
    db.close()
    unlock()
    throw diskFault(error, path) ?? error
  }
  const link: Link = {
    write: async (tapes) => engine.write(tapes),
    async ask(name, ...args) {
      try {
        const question = engine.questions[name] as (...args: unknown[]) => never
        return question(...args)
      } catch (error) {
        const fault = faultOf(error, path)
        onFault(fault)
        throw errorOf(fault)
      }
    },
    close: () => link.ask('close').finally(unlock),
  }
  return link
}

interface Waiting {
  readonly count: number
  readonly resolve: (value: never) => void
  readonly reject: (error: Error) => void
}

/** The file is locked and checked here, so that what is wrong with it is thrown here; then the thread has it. */
export function openThread(options: LinkOptions): Link {
  const { path, onFault } = options
  const { db, small, unlock } = openDatabase(options)
  db.close()
  const { onFault: _, ...rest } = options
  const workerData: ThreadData = { ...rest, verify: small }
  // The extension is that of this file: the sources run as they are, and so does what is built from them.
  const worker = new Worker(new URL(`./thread${import.meta.url.slice(-3)}`, import.meta.url), { workerData })
  const waiting = new Map<number, Waiting>()
  let lastId = startId
  let gone: Error | undefined
  worker.unref()

  const lost = (why: string): Error =>
    new SluiceError('STORE_UNAVAILABLE', `The store ${path} has lost its thread: ${why}.`, { retryAfterMs })

  function end(reason: Error): void {
    gone ??= reason
    for (const { reject } of waiting.values()) reject(gone)
    waiting.clear()
  }
  worker.on('error', (error: Error) => end(lost(error.message)))
  worker.on('exit', (code) => end(lost(`it ended with code ${code}`)))
  worker.on('message', ({ id, results, value, fault }: Received) => {
    if (id === startId) {
      onFault(fault!)
      return end(errorOf(fault!))
    }
    const { count, resolve, reject } = waiting.get(id)!
    waiting.delete(id)
    // Only what is awaited keeps the process alive.
    if (waiting.size === 0) worker.unref()
    if (fault !== undefined) {
      onFault(fault)
      reject(errorOf(fault))
    } else resolve((count === 0 ? value : (results ?? Array<null>(count).fill(null))) as never)
  })

  function send<T>(count: number, message: (id: number) => Sent): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (gone !== undefined) return reject(gone)
      lastId += 1
      if (waiting.size === 0) worker.ref()
      waiting.set(lastId, { count, resolve, reject })
      worker.postMessage(message(lastId))
    })
  }

  const link: Link = {
    write: (tapes) => send(tapes.length, (id) => ({ id, tapes })),
    ask: (name, ...args) => send(0, (id) => ({ id, name, args })),
    async close() {
      try {
        await link.ask('close')
      } finally {
        await worker.terminate()
        unlock()
      }
    },
  }
  return link
}
