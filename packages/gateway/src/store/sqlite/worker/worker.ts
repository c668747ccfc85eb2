/**
 * The engine's own thread. Writes that have arrived share a transaction (write-queue.ts), so that groups grow by
 * themselves while the disk is busy. Questions see the writes sent before them.
 */
import { flushCompileCache } from 'node:module'
import { parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads'
import { connect } from '../database.ts'
import { type Write, WriteQueue } from '../write-queue.ts'
import type { Engine } from './engine.ts'
import { createEngine, faultOf } from './engine.ts'
import type { Received, Sent, ThreadData } from './worker-client.ts'
import { startId } from './worker-client.ts'

const options = workerData as ThreadData
const port = parentPort!
const sweepEvery = 16
const engine = start()
const queue = new WriteQueue()
let answers: Received[] = []
/** Transactions since the last part was dropped. */
let sinceSweep = 0
// The thread is terminated before the point at which Node would write its compile cache.
flushCompileCache()

function start(): Engine {
  try {
    const { path, now, verify } = options
    return createEngine({ db: connect(options), path, now, verify })
  } catch (error) {
    port.postMessage([{ id: startId, fault: faultOf(error, options.path) } satisfies Received])
    throw error
  }
}

/** Writes the next transaction. */
function write(): void {
  const writes = queue.take()
  const results = engine.write(writes.map(({ changeLog }) => changeLog))
  let from = 0
  for (const { id, changeLog } of writes) {
    const own = results.slice(from, from + changeLog.changes.length)
    from += changeLog.changes.length
    answers.push(own.every((result) => result === null) ? { id } : { id, results: own })
  }
  reply()
}

/**
 * Drops a part that no row refers to, where nothing else is to do; else after every so many transactions, so that it
 * never waits for ever. False where there is none.
 */
function sweep(): boolean {
  sinceSweep += 1
  if (!queue.isEmpty && sinceSweep < sweepEvery) return false
  sinceSweep = 0
  return engine.sweep()
}

function ask({ id, name, args }: Exclude<Sent, Write>): void {
  try {
    const question = engine.questions[name] as (...args: readonly unknown[]) => unknown
    const value = question(...args)
    answers.push(name === 'claimDue' ? { id, value, claimedUntil: engine.claimedUntil() } : { id, value })
  } catch (error) {
    answers.push({ id, fault: faultOf(error, options.path) })
  }
}

function reply(): void {
  if (answers.length > 0) port.postMessage(answers)
  answers = []
}

/** Takes a batch of messages; a question sees the writes sent before it. */
function take(batch: readonly Sent[]): void {
  for (const sent of batch) {
    if ('changeLog' in sent) queue.put(sent)
    else {
      while (!queue.isEmpty) write()
      ask(sent)
    }
  }
}

function work(): void {
  for (;;) {
    // Messages that arrived while the last transaction was written.
    for (;;) {
      const batch = receiveMessageOnPort(port)?.message as readonly Sent[] | undefined
      if (batch === undefined) break
      take(batch)
    }
    if (!queue.isEmpty) write()
    const isSwept = !sweep()
    engine.checkpoint()
    if (queue.isEmpty) reply()
    if (queue.isEmpty && isSwept) break
  }
}

port.on('message', (first: readonly Sent[]) => {
  take(first)
  work()
})
// Parts that the process before left behind.
setImmediate(work)
