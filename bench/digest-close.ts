/**
 * A digest as large as one tenant may make it: two batches that name one person 48 times with 1.3 MB of text, and as
 * many single items of a megabyte as are asked for. Somebody of another tenant sends one request after the other: alone,
 * while it fills, while it is closed, and after a restart by which its window has ended. What is measured is how long
 * that takes, the memory, and the restart. The bound of a tenant (`tenants.*.bytes`, 1 GiB) ends the filling.
 *
 *     npm run bench -- digest-close [--full 400]
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { options } from './catalogue.ts'
import { percentile } from './figures.ts'
import type { Waited } from './heavy.ts'
import type { Composition, Settled } from './host.ts'
import { type Peer, start } from './process.ts'

const { full } = options('digest-close')
const folder = mkdtempSync(join(tmpdir(), 'sluice-digest-'))
const windowMs = 20_000
const comment = { channel: 'email', category: 'activity', template: 'new-comment' } as const
const still = start('heavy.ts', 'quiet')

const open = (): Peer => start('host.ts', 'gateway.ts', JSON.stringify({ policy: 'digest', folder }))

function post(port: number, path: string, body: object): Promise<number> {
  return new Promise((resolve, reject) => {
    const headers = { 'x-tenant-id': 'heavy', 'content-type': 'application/json' }
    const sent = request(
      { port, host: '127.0.0.1', method: 'POST', path: `/api/v1${path}`, headers },
      (answer) => {
        answer.resume()
        answer.on('close', () => resolve(answer.statusCode ?? 0))
      },
    )
    sent.on('error', reject)
    sent.end(JSON.stringify(body))
  })
}

/** How many items were accepted. */
async function fill(port: number, addressed: string): Promise<number> {
  const recipient = { id: addressed, email: `${addressed}@example.com` }
  const half = 'x'.repeat(650_000)
  let accepted = 0
  for (const actor of ['first', 'second']) {
    const recipients = Array.from({ length: 48 }, () => recipient)
    const content = { subject: actor, text: half, html: half }
    const status = await post(port, '/notifications/batch', { ...comment, actor, recipients, content })
    if (status === 202 || status === 207) accepted += 48
  }
  const lane = async (first: number): Promise<void> => {
    for (let n = first; n < full; n += 4) {
      const content = { subject: `${n}`, text: half, html: half.slice(300_000) }
      const status = await post(port, '/notifications', {
        ...comment,
        actor: `author-${n}`,
        recipient,
        content,
      })
      if (status === 202) accepted += 1
    }
  }
  await Promise.all([0, 1, 2, 3].map(lane))
  return accepted
}

/** The latency of another tenant meanwhile, and the peak memory. */
async function beside(what: string, gateway: Peer, seconds: number, more = ''): Promise<void> {
  const port = await gateway.ask<number>('port')
  const { tookMs: sorted } = await still.ask<Waited>('run', { port, seconds })
  const { rssBytes, rssMostBytes } = await gateway.ask<Composition>('composition')
  const figures = [0.5, 0.99, 1].map((p) => percentile(sorted, p).toFixed(1).padStart(7))
  const mib = (bytes: number): string => (bytes / 2 ** 20).toFixed(0).padStart(4)
  console.log(
    `${what.padEnd(22)} p50 ${figures[0]} ms  p99 ${figures[1]} ms  longest ${figures[2]} ms  RSS ${mib(rssBytes)} MiB, at most ${mib(rssMostBytes)}  ${more}`,
  )
}

try {
  const first = open()
  const port = await first.ask<number>('port')
  await beside('alone', first, 3)
  let begun = Date.now()
  const filling = fill(port, 'ada')
  await beside('while it fills', first, 8)
  const accepted = await filling
  const left = windowMs - (Date.now() - begun)
  if (left > 1_000) await beside('while it waits', first, left / 1_000 - 1)
  await beside('while it is closed', first, 5, `${accepted} items in ${Math.round(windowMs - left)} ms`)
  console.log(`settled: ${(await first.ask<Settled>('take')).numbers.length}`)
  begun = Date.now()
  const again = await fill(port, 'eve')
  await first.stop()
  await sleep(Math.max(0, windowMs - (Date.now() - begun)))
  const restarted = performance.now()
  const second = open()
  await second.ask('port')
  const startMs = Math.round(performance.now() - restarted)
  await beside('after a restart', second, 5, `${again} items, started in ${startMs} ms`)
  console.log(JSON.stringify(await second.ask('counts')))
  await second.stop()
} finally {
  await still.stop()
  rmSync(folder, { recursive: true, force: true })
}
