/**
 * The engine's own thread. Writes that have arrived one behind the other share a transaction, so that groups grow by
 * themselves while the disk is busy.
 */
import { parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads'
import { connect } from './database.ts'
import type { Engine, Result } from './engine.ts'
import { createEngine, faultOf } from './engine.ts'
import type { Received, Sent, ThreadData } from './link.ts'
import { startId } from './link.ts'

/** Changes in one transaction, at most: 5 to 20 ms of work. */
const groupMax = 1_000

const options = workerData as ThreadData
const port = parentPort!
const answer = (received: Received): void => port.postMessage(received)
const engine = start()

function start(): Engine {
  try {
    const { path, now, verify } = options
    return createEngine({ db: connect(options), path, now, verify })
  } catch (error) {
    answer({ id: startId, fault: faultOf(error, options.path) })
    throw error
  }
}

type Write = Extract<Sent, { tapes: unknown }>

function write(writes: readonly Write[]): void {
  const results = engine.write(writes.flatMap(({ tapes }) => tapes))
  let from = 0
  for (const { id, tapes } of writes) {
    const own: readonly Result[] = results.slice(from, from + tapes.length)
    from += tapes.length
    answer(own.every((result) => result === null) ? { id } : { id, results: own })
  }
}

function ask({ id, name, args }: Exclude<Sent, Write>): void {
  try {
    const question = engine.questions[name] as (...args: readonly unknown[]) => unknown
    answer({ id, value: question(...args) })
  } catch (error) {
    answer({ id, fault: faultOf(error, options.path) })
  }
}

port.on('message', (first: Sent) => {
  let writes: Write[] = []
  let count = 0
  const flush = (): void => {
    if (writes.length > 0) write(writes)
    writes = []
    count = 0
  }
  for (let next: Sent | undefined = first; next !== undefined; ) {
    if ('tapes' in next) {
      writes.push(next)
      count += next.tapes.length
    } else {
      flush()
      ask(next)
    }
    if (count >= groupMax) flush()
    next = receiveMessageOnPort(port)?.message as Sent | undefined
  }
  flush()
})
