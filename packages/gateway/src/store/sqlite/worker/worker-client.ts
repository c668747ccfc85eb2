/**
 * The client of the engine in a thread of its own. A message to another thread costs some 10 µs, whatever its
 * content: requests sent in one turn of the event loop travel together, and so do the answers.
 */
import { Worker } from 'node:worker_threads'
import { SluiceError } from '../../../errors.ts'
import { threadEnvironment } from '../../../thread-environment.ts'
import type { ChangeLog } from '../codec/change-log.ts'
import { buffersIn } from '../codec/change-log.ts'
import { openDatabase } from '../database.ts'
import { retryAfterMs } from '../sqlite-errors.ts'
import type { Fault, Questions, Result } from './engine.ts'
import { errorOf } from './engine.ts'
import type { EngineClient, EngineClientOptions } from './engine-client.ts'
import { createReader } from './reader.ts'

/** The start data of a thread. */
export interface ThreadData extends Omit<EngineClientOptions, 'onFault'> {
  readonly verify: boolean
}

/** A message of the owner; `id` comes back with the answer. */
export type Sent =
  | { readonly id: number; readonly changeLog: ChangeLog }
  | { readonly id: number; readonly name: keyof Questions; readonly args: readonly unknown[] }

/** The id under which a thread reports why it cannot start. */
export const startId = 0

/** A message of the thread. `results` are left out where every change was applied: nearly always. */
export interface Received {
  readonly id: number
  readonly results?: readonly Result[]
  readonly value?: unknown
  readonly fault?: Fault
  /** The `claimedUntil` after a claim, with every answer to `claimDue`. */
  readonly claimedUntil?: number
}

interface Waiting {
  /** The number of changes sent; 0 for a question. */
  readonly count: number
  readonly resolve: (value: never) => void
  readonly reject: (error: Error) => void
}

/**
 * The thread's allocations are garbage once their group is written. V8's own bound of 48 MB would be filled under
 * load, and costs no less CPU a message.
 */
const maxYoungGenerationSizeMb = 12

/**
 * Opens the engine in a thread. The file is locked and checked here, so that its faults are thrown here; then the
 * thread takes it over.
 */
export function openWorker(options: EngineClientOptions): EngineClient {
  const { path, onFault } = options
  const { db, small, unlock, ...opened } = openDatabase(options)
  db.close()
  const { onFault: _, ...rest } = options
  const workerData: ThreadData = { ...rest, verify: small }
  // The extension is this file's own: the sources run as they are, and so does the build.
  const worker = new Worker(new URL(`./worker${import.meta.url.slice(-3)}`, import.meta.url), {
    workerData,
    env: threadEnvironment(),
    resourceLimits: { maxYoungGenerationSizeMb },
  })
  const reader = createReader(path, onFault)
  const waiting = new Map<number, Waiting>()
  let outbox: Sent[] = []
  let lastId = startId
  let claimedUntil = Number.NEGATIVE_INFINITY
  let gone: Error | undefined
  worker.unref()

  const lost = (why: string): Error =>
    new SluiceError('STORE_UNAVAILABLE', `The store ${path} has lost its thread: ${why}.`, { retryAfterMs })

  function end(reason: Error): void {
    gone ??= reason
    for (const { reject } of waiting.values()) reject(gone)
    waiting.clear()
  }

  function receive({ id, results, value, fault, ...rest }: Received): void {
    if (id === startId) {
      onFault(fault!)
      end(errorOf(fault!))
      return
    }
    const { count, resolve, reject } = waiting.get(id)!
    waiting.delete(id)
    if (rest.claimedUntil !== undefined) claimedUntil = rest.claimedUntil
    if (fault !== undefined) {
      onFault(fault)
      reject(errorOf(fault))
    } else resolve((count === 0 ? value : (results ?? Array<null>(count).fill(null))) as never)
  }

  // Messages of the thread are still delivered between its error and its exit, and explain it better.
  let failure: Error | undefined
  worker.on('error', (error: Error) => {
    failure = error
  })
  worker.on('exit', (code) => end(lost(failure?.message ?? `it ended with code ${code}`)))
  worker.on('message', (answers: readonly Received[]) => {
    for (const answer of answers) receive(answer)
    // Only pending answers keep the process alive.
    if (waiting.size === 0) worker.unref()
  })

  function post(): void {
    if (outbox.length > 0 && gone === undefined)
      worker.postMessage(
        outbox,
        outbox.flatMap((sent) => ('changeLog' in sent ? buffersIn(sent.changeLog) : [])),
      )
    outbox = []
  }

  function send<T>(count: number, message: (id: number) => Sent): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (gone !== undefined) return reject(gone)
      lastId += 1
      if (waiting.size === 0) worker.ref()
      waiting.set(lastId, { count, resolve, reject })
      if (outbox.length === 0) setImmediate(post)
      outbox.push(message(lastId))
      // A group has waited for its flush already.
      if (count > 0) post()
    })
  }

  let isOpen = false
  const started = send<unknown>(0, (id) => ({ id, name: 'counters', args: [] })).then(() => {
    isOpen = true
  })
  // Every caller gets the error through its own question.
  started.catch(() => {})

  const client: EngineClient = {
    ...opened,
    write: (changeLog) => send(changeLog.changes.length, (id) => ({ id, changeLog })),
    ask: (name, ...args) => send(0, (id) => ({ id, name, args })),
    // Not before the store is open: the writes of a start belong to the record that is read.
    read: (name, ...args) =>
      isOpen ? reader.read(name, ...args) : started.then(() => reader.read(name, ...args)),
    pause: () => new Promise<void>((resolve) => setImmediate(resolve)),
    claimedUntil: () => claimedUntil,
    async close(isSettled) {
      try {
        // The reader closes first, so that the writer is the last to close and checkpoints the log into the file.
        await reader.close()
        await client.ask('close', isSettled)
      } finally {
        await worker.terminate()
        unlock()
      }
    },
  }
  return client
}
