/** The reader's thread: a read-only connection of its own. Questions are answered in order. */
import { flushCompileCache } from 'node:module'
import { parentPort, workerData } from 'node:worker_threads'
import { connectReader } from '../database.ts'
import { faultOf } from './engine.ts'
import type { Asked, ReaderData, Replied } from './reader.ts'
import { prepareReads } from './reads.ts'

const { path, cacheMib } = workerData as ReaderData
const port = parentPort!
const reads = prepareReads(connectReader(path, cacheMib))
flushCompileCache()

port.on('message', ({ id, name, args }: Asked) => {
  let reply: Replied
  try {
    const read = reads[name] as (...args: readonly unknown[]) => unknown
    reply = { id, value: read(...args) }
  } catch (error) {
    reply = { id, fault: faultOf(error, path) }
  }
  port.postMessage(reply)
})
