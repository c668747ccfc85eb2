/**
 * The engine's own thread. Writes that have arrived one behind the other share a transaction, so that groups grow by
 * themselves while the disk is busy. Questions see what was written before them.
 */
import { flushCompileCache } from 'node:module'
import { parentPort, receiveMessageOnPort, workerData } from 'node:worker_threads'
import { connect } from './database.ts'
import type { Engine } from './engine.ts'
import { createEngine, faultOf } from './engine.ts'
import type { Received, Sent, ThreadData } from './threaded.ts'
import { startId } from './threaded.ts'

/** Changes in one transaction, at most: 5 to 20 ms of work. */
const groupMax = 1_000

const options = workerData as ThreadData
const port = parentPort!
const engine = start()
let answers: Received[] = []
// A thread does not live to its end, where Node would write what it has compiled.
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

type Write = Extract<Sent, { tape: unknown }>

function write(writes: readonly Write[]): void {
  const results = engine.write(writes.map(({ tape }) => tape))
  let from = 0
  for (const { id, tape } of writes) {
    const own = results.slice(from, from + tape.ends.length)
    from += tape.ends.length
    answers.push(own.every((result) => result === null) ? { id } : { id, results: own })
  }
  reply()
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

port.on('message', (first: readonly Sent[]) => {
  let writes: Write[] = []
  let count = 0
  const flush = (): void => {
    if (writes.length > 0) write(writes)
    writes = []
    count = 0
  }
  for (let batch: readonly Sent[] | undefined = first; batch !== undefined; ) {
    for (const sent of batch) {
      if ('tape' in sent) {
        writes.push(sent)
        count += sent.tape.ends.length
        if (count >= groupMax) flush()
      } else {
        flush()
        ask(sent)
      }
    }
    batch = receiveMessageOnPort(port)?.message as readonly Sent[] | undefined
  }
  flush()
  reply()
})
