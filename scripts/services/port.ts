/**
 * Free loopback ports. They are drawn from below 32,768, where no system hands out ports for outgoing
 * connections, so that a port found free is still free a moment later.
 */
import { randomInt } from 'node:crypto'
import { connect, createServer } from 'node:net'

const lowest = 12_000
const highest = 22_000

/** A port that nobody listens on, and whose neighbours at the given distances are free too. */
export async function freePort(distances: readonly number[] = []): Promise<number> {
  for (let attempt = 0; attempt < 100; attempt++) {
    const port = randomInt(lowest, highest)
    const all = await Promise.all([0, ...distances].map((distance) => isFree(port + distance)))
    if (all.every(Boolean)) return port
  }
  throw new Error(`no free port found on 127.0.0.1 between ${lowest} and ${highest}`)
}

/** Sends `greeting` and answers the first bytes that come back; undefined when nobody is there. */
export function firstWords(
  port: number,
  greeting: string | Uint8Array = '',
  patienceMs = 1000,
): Promise<string | undefined> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
    const end = (words?: string) => {
      socket.destroy()
      resolve(words)
    }
    socket.setTimeout(patienceMs, () => end())
    socket.on('error', () => end())
    socket.on('close', () => end())
    socket.on('data', (bytes) => end(bytes.toString()))
    if (greeting.length > 0) socket.write(greeting)
  })
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const server = createServer()
    server.on('error', () => resolve(false))
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)))
  })
}
