/**
 * The parts of a gateway's memory: idle, while many notifications come to wait, after a rest, and after a
 * restart on that store. Every part is what is resident, MiB: files that are mapped (Node itself, libraries, SQLite's
 * index of the log), V8's heap of each thread, what hangs on it outside (buffers), and the rest: what C and C++
 * allocate (SQLite's pages, code before it is compiled, zlib, OpenSSL) and what malloc has not given back. Linux only.
 *
 *     npm run bench -- memory [--full 1000000] [--seconds 80]
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { options } from './catalogue.ts'
import type { Composition } from './host.ts'
import { type Peer, start } from './process.ts'

const { full, seconds } = options('memory')
const folder = mkdtempSync(join(tmpdir(), 'sluice-memory-'))
const hourMs = 3_600_000

const heads = ['RSS', 'most', 'files', 'heap', 'alive', 'young', 'threads', 'alive', 'buffers', 'rest']

function row(what: string, of: Composition): void {
  const { main, threads } = of
  const sum = (pick: (heap: (typeof threads)[number]) => number): number =>
    threads.reduce((total, heap) => total + pick(heap), 0)
  const cells = [
    of.rssBytes,
    of.rssMostBytes,
    of.fileBytes,
    main.residentBytes,
    main.usedBytes,
    of.youngBytes,
    sum((heap) => heap.residentBytes),
    sum((heap) => heap.usedBytes),
    of.externalBytes,
    of.rssBytes - of.fileBytes - main.residentBytes - sum((heap) => heap.residentBytes) - of.externalBytes,
  ]
  print(
    what,
    cells.map((bytes) => (bytes / 2 ** 20).toFixed(0)),
  )
}

function print(what: string, cells: readonly string[]): void {
  console.log(what.padEnd(26) + cells.map((cell) => cell.padStart(9)).join(''))
}

async function open(): Promise<Peer> {
  const begun = performance.now()
  const gateway = start('host.ts', 'gateway.ts', JSON.stringify({ policy: 'wide', folder }))
  await gateway.ask('port')
  print(`started in ${Math.round(performance.now() - begun)} ms`, [])
  return gateway
}

async function show(gateway: Peer, what: string): Promise<void> {
  row(what, await gateway.ask<Composition>('composition'))
}

async function fill(gateway: Peer): Promise<void> {
  const from = Date.now() + 2 * hourMs
  const span = { from, to: from + 48 * hourMs }
  let tookMs = 0
  for (let first = 0; first < full; first += 50_000) {
    const count = Math.min(full - first, 50_000)
    tookMs += await gateway.ask<number>('admit', { first, count, batch: 100, recipients: full, sendAt: span })
    if ((first + count) % 250_000 === 0) await show(gateway, `${first + count} wait`)
  }
  print(`accepted at ${Math.round((full / tookMs) * 1_000)}/s`, [])
}

print('MiB', heads)
try {
  const first = await open()
  await show(first, 'at once')
  await sleep(5_000)
  await show(first, 'idle')
  await fill(first)
  await sleep(seconds * 1_000)
  await show(first, `after ${seconds} s of rest`)
  await first.ask('collect')
  await show(first, 'all collected')
  await first.stop()
  const second = await open()
  await show(second, 'at once')
  await sleep(seconds * 1_000)
  await show(second, `after ${seconds} s of rest`)
  await second.stop()
} finally {
  rmSync(folder, { recursive: true, force: true })
}
