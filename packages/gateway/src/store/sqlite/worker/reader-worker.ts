/** The reader's thread: a read-only connection of its own. Questions are answered in order. */
import { flushCompileCache } from 'node:module'
import { parentPort, workerData } from 'node:worker_threads'
import { connectReader } from '../database.ts'
import type { WorkText } from '../job-work.ts'
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
  port.postMessage(reply, 'value' in reply ? bytesIn(reply.value) : [])
})

/** Bytes of a job's work, which are handed over and not copied. */
function bytesIn(value: unknown): ArrayBuffer[] {
  const { bytes } = (value ?? {}) as Partial<WorkText>
  return bytes instanceof Uint8Array && bytes.length > 0 ? [bytes.buffer] : []
}
