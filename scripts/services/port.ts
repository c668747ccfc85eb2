/**
 * Free loopback ports. They are drawn from below 32,768, where no system hands out ports for outgoing
 * connections, and reserved, so that a port found free is still free when its engine listens on it.
 */
import { randomInt } from 'node:crypto'
import { mkdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const lowest = 12_000
const highest = 22_000
/** An engine that starts on a busy machine listens within this, ms. */
const reservedMs = 120_000
const reservations = fileURLToPath(new URL('../../.services/ports', import.meta.url))

/** A port that nobody listens on, and whose neighbours at the given distances are free too. */
export async function freePort(distances: readonly number[] = []): Promise<number> {
  for (let attempt = 0; attempt < 100; attempt++) {
    const port = randomInt(lowest, highest)
    const ports = [port, ...distances.map((distance) => port + distance)]
    // A port that is reserved in vain is free again later.
    if (ports.every(reserve) && (await Promise.all(ports.map(isFree))).every(Boolean)) return port
  }
  throw new Error(`no free port found on 127.0.0.1 between ${lowest} and ${highest}`)
}

/**
 * Keeps a port for the caller, among all processes of this checkout; false while another has it. Without it, two of several
 * test files that start engines at once were given one port, as a broker takes seconds until it listens.
 */
export function reserve(port: number): boolean {
  const file = join(reservations, String(port))
  mkdirSync(reservations, { recursive: true })
  try {
    if (Date.now() - statSync(file).mtimeMs < reservedMs) return false
    rmSync(file)
  } catch {} // Nobody has reserved it.
  try {
    writeFileSync(file, '', { flag: 'wx' })
    return true
  } catch {
    return false // Another process was quicker.
  }
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
