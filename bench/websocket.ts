/**
 * The slowdown of a quiet tenant by a noisy one over WebSockets: 10 connections of one tenant hear 5 messages a second, at
 * first alone, then while another tenant has 1,000 connections and publishes 200 messages a second, once heard by one
 * of them each and once by all (200,000 frames a second). The gateway, the crowd and the quiet tenant are a process
 * each. The crowd counts bytes and reads nothing in them, so that it is not what is measured.
 *
 *     npm run bench -- websocket [--seconds 6] [--rounds 1] [--connections 1000]
 */
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { WebSocket } from 'ws'
import { loadConfig } from '../packages/gateway/src/config/load.ts'
import { createGateway } from '../packages/gateway/src/gateway.ts'
import { options } from './catalogue.ts'
import { percentile } from './figures.ts'
import { answer, start } from './process.ts'

const role = process.argv[2]
if (role === 'gateway') await serve()
else if (role === 'crowd') await crowd()
else await measure()

async function serve(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-bench-'))
  const path = join(folder, 'sluice.yaml')
  writeFileSync(
    path,
    'http: { port: 0 }\nstore: "sqlite::memory:"\nwebsocket: { heartbeat: 10min }\nlog: { level: silent }\n',
  )
  const gateway = await createGateway(loadConfig({ path, env: {}, cwd: folder }))
  const { url } = await gateway.start()
  answer(
    {
      url: () => url,
      cost: () => ({ rss: process.memoryUsage.rss(), cpuMs: process.cpuUsage().user / 1e3 }),
      metrics: async () => (await fetch(`${url}/metrics`)).text(),
    },
    async () => {
      await gateway.stop()
      rmSync(folder, { recursive: true, force: true })
    },
  )
}

/** A masked frame whose mask is 0, as a client may choose it. */
function clientFrame(message: object): Buffer {
  const text = Buffer.from(JSON.stringify(message))
  const head = Buffer.from([0x81, 0x80 | text.length, 0, 0, 0, 0])
  return Buffer.concat([head, text])
}

async function crowd(): Promise<void> {
  const sockets: Socket[] = []
  let bytes = 0
  let timer: NodeJS.Timeout | undefined

  async function join({ url, tenant, channel }: Joining): Promise<string> {
    const { hostname, port } = new URL(url)
    const socket = connect(Number(port), hostname)
    socket.on('error', () => {})
    const head = `GET /ws HTTP/1.1\r\nHost: ${hostname}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nX-Tenant-Id: ${tenant}\r\n\r\n`
    socket.write(head)
    const [first] = (await once(socket, 'data')) as [Buffer]
    const text = first.toString('latin1')
    // The close frame of one that is above the limit may come with the answer to its upgrade or after it.
    if (channel === '') {
      const end = first.indexOf('\r\n\r\n') + 4
      const rest = first.length > end ? first.subarray(end) : ((await once(socket, 'data')) as [Buffer])[0]
      return String(rest.readUInt16BE(2))
    }
    socket.write(clientFrame({ type: 'subscribe', channel }))
    await once(socket, 'data')
    socket.on('data', (chunk) => {
      bytes += chunk.length
    })
    sockets.push(socket)
    return text.slice(9, 12)
  }

  answer({
    async gather({ url, tenant, connections, shared }: Gathering) {
      for (const socket of sockets.splice(0)) socket.destroy()
      await sleep(300)
      for (let n = 0; n < connections; n += 50) {
        const group = Array.from({ length: Math.min(50, connections - n) }, (_, index) =>
          join({ url, tenant, channel: shared ? 'all' : `c${n + index}` }),
        )
        await Promise.all(group)
      }
      return sockets.length
    },
    oneMore: (joining: Joining) => join(joining),
    publish({ perSecond, shared }: { readonly perSecond: number; readonly shared: boolean }) {
      let sent = 0
      bytes = 0
      const began = performance.now()
      timer = setInterval(() => {
        const due = ((performance.now() - began) / 1_000) * perSecond
        for (; sent < due; sent += 1) {
          const channel = shared ? 'all' : `c${sent % sockets.length}`
          sockets[sent % sockets.length]!.write(clientFrame({ type: 'publish', channel, data: 'hello' }))
        }
      }, 2)
    },
    stop() {
      clearInterval(timer)
      return bytes
    },
  })
}

interface Joining {
  readonly url: string
  readonly tenant: string
  /** Empty: nothing is subscribed to, and the answer is the close code. */
  readonly channel: string
}

interface Gathering {
  readonly url: string
  readonly tenant: string
  readonly connections: number
  readonly shared: boolean
}

/** Latencies from publishing to being heard, ms, sorted: each message is heard by all ten. */
async function latencies(clients: readonly WebSocket[], seconds: number): Promise<number[]> {
  const found: number[] = []
  const hear = (bytes: Buffer): void => {
    const { type, data } = JSON.parse(bytes.toString()) as { type: string; data: number }
    if (type === 'message') found.push(performance.now() - data)
  }
  for (const client of clients) client.on('message', hear)
  for (let n = 0; n < seconds * 5; n += 1) {
    const data = performance.now()
    clients[n % clients.length]!.send(JSON.stringify({ type: 'publish', channel: 'quiet', data }))
    await sleep(200)
  }
  for (const client of clients) client.off('message', hear)
  return found.toSorted((a, b) => a - b)
}

async function quietTenant(url: string): Promise<readonly WebSocket[]> {
  return Promise.all(
    Array.from({ length: 10 }, async () => {
      const client = new WebSocket(`${url.replace('http', 'ws')}/ws`, { headers: { 'x-tenant-id': 'quiet' } })
      await once(client, 'open')
      client.send('{"type":"subscribe","channel":"quiet"}')
      await once(client, 'message')
      return client
    }),
  )
}

async function measure(): Promise<void> {
  const { seconds, rounds, connections } = options('websocket')
  const gateway = start('websocket.ts', 'gateway')
  const noisy = start('websocket.ts', 'crowd')
  const url = await gateway.ask<string>('url')
  const clients = await quietTenant(url)
  const show = (what: string, sorted: readonly number[], more = ''): void => {
    const ms = (share: number): string => percentile(sorted, share).toFixed(2)
    console.log(`${what.padEnd(44)} p50 ${ms(0.5)} ms  p99 ${ms(0.99)} ms  (${sorted.length} heard)${more}`)
  }
  const memory = async (): Promise<string> =>
    `  ${((await gateway.ask<{ rss: number }>('cost')).rss / 1_048_576).toFixed(0)} MiB`
  await latencies(clients, 1)
  for (let round = 0; round < rounds; round += 1) {
    for (const shared of [false, true]) {
      await noisy.ask('gather', { url, tenant: 'noisy', connections, shared } satisfies Gathering)
      show('quiet, the others silent', await latencies(clients, seconds), await memory())
      await noisy.ask('publish', { perSecond: 200, shared })
      const began = performance.now()
      const sorted = await latencies(clients, seconds)
      const bytes = await noisy.ask<number>('stop')
      // A frame: its head of two bytes and the message.
      const frameBytes = 2 + JSON.stringify({ type: 'message', channel: 'all', data: 'hello' }).length
      const heard = bytes / frameBytes / ((performance.now() - began) / 1_000)
      const what = `quiet, ${connections} × ${shared ? 'all of' : 'one of'} 200/s`
      // Where each message is heard by one, most of what is heard are warnings and errors.
      const crowdHeard = shared ? `, the others heard ${Math.round(heard)}/s` : ''
      show(what, sorted, (await memory()) + crowdHeard)
    }
  }
  const code = await noisy.ask<string>('oneMore', { url, tenant: 'noisy', channel: '' } satisfies Joining)
  console.log(`connection ${connections + 1} of the noisy tenant: ${code}`)
  for (const client of clients) client.terminate()
  await noisy.stop()
  await gateway.stop()
}
