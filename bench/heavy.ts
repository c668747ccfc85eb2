/**
 * The heaviest that one tenant may ask for, beside others that behave: batches and jobs whose content times recipients
 * is at the bound, bodies of 8 MiB, large single requests, lists and timelines of many, 50 event streams, items of
 * digests at the size of a request. The gateway, the heavy tenant and the quiet one are a process each; the heavy one has
 * its requests ready and gives way to the others where a core is wanted, for what it costs itself is not the gateway's.
 * The quiet one asks at fixed instants, whether it was answered or not, and each of its waits begins at that instant: so
 * a stall is counted for all whom it hits. Each row has the same gateway before it, alone, when the gateway is idle and
 * the disk has written back what the row before left; and the longest that the client's own event loop was late, which
 * no figure can be better than.
 *
 *     npm run bench -- heavy [--seconds 10] [--only batches]
 */
import { closeSync, fsyncSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs'
import { Agent, type ClientRequest, request } from 'node:http'
import { constants, setPriority, tmpdir } from 'node:os'
import { join } from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { setTimeout as sleep } from 'node:timers/promises'
import { options } from './catalogue.ts'
import { percentile } from './figures.ts'
import type { Cost } from './host.ts'
import { answer, type Peer, start } from './process.ts'

const kinds = ['batches', 'jobs', 'own data', 'large ones', 'lists', 'event streams', 'digests'] as const
type Kind = (typeof kinds)[number]

interface Heavy {
  readonly port: number
  readonly kind: Kind
}

/** Requests of the heavy tenant under way at once. */
const lanes: Record<Kind, number> = {
  batches: 3,
  jobs: 3,
  'own data': 3,
  'large ones': 6,
  lists: 24,
  'event streams': 60,
  digests: 6,
}

interface Asked {
  readonly port: number
  readonly tenant: string
  readonly method: 'GET' | 'POST'
  readonly path: string
  readonly body?: Buffer | string
}

const agent = new Agent({ keepAlive: true, maxSockets: 100 })

/** The status, when the answer is there as a whole. */
function ask(
  { port, tenant, method, path, body }: Asked,
  opened?: (sent: ClientRequest) => void,
): Promise<number> {
  return new Promise((resolve) => {
    const headers = {
      'x-tenant-id': tenant,
      ...(body === undefined
        ? {}
        : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }),
    }
    const sent = request(
      { port, agent, host: '127.0.0.1', method, path: `/api/v1${path}`, headers },
      (response) => {
        response.resume()
        response.on('close', () => resolve(response.statusCode ?? 0))
      },
    )
    sent.on('error', () => resolve(0))
    opened?.(sent)
    sent.end(body)
  })
}

const everybody = (count: number) =>
  Array.from({ length: count }, (_, n) => ({ id: `user-${n}`, email: `user-${n}@example.com` }))

let serial = 0
/** Stands in a body where each request says something else. */
const placeholder = '##########'

/** `bytes` as JSON. */
function said(bytes: number) {
  const letters = Math.floor((bytes - 60) / 2)
  // Text and html take a mebibyte of letters each; above it each letter has three bytes.
  const text = letters > 2 ** 20 ? '€'.repeat(Math.floor(letters / 3)) : 'x'.repeat(letters)
  return { subject: placeholder, text, html: text }
}

const email = { channel: 'email', category: 'marketing' } as const
const atOnce = (count: number): number => Math.floor((256 * 2 ** 20) / count)

const made = new Map<Kind, Buffer>()

/** The body, which is made once, and says something else each time. */
function bodyOf(kind: Kind, make: () => object): Buffer {
  let body = made.get(kind)
  if (body === undefined) {
    body = Buffer.from(JSON.stringify(make()))
    made.set(kind, body)
  }
  const own = Buffer.from(body)
  own.write(`${serial}`.padStart(placeholder.length, '0'), own.indexOf(placeholder), 'latin1')
  return own
}

function requestOf(kind: Kind): Pick<Asked, 'method' | 'path' | 'body'> {
  serial += 1
  const post = (path: string, make: () => object) =>
    ({ method: 'POST', path, body: bodyOf(kind, make) }) as const
  switch (kind) {
    case 'batches':
      return post('/notifications/batch', () => ({
        ...email,
        recipients: everybody(100),
        content: said(atOnce(100)),
      }))
    case 'jobs':
      return post('/notifications/batch', () => ({
        ...email,
        recipients: everybody(500),
        content: said(atOnce(500)),
      }))
    case 'own data': {
      const data = Object.fromEntries(Array.from({ length: 1_000 }, (_, n) => [`key-${n}`, n]))
      return post('/notifications/batch', () => ({
        ...email,
        recipients: everybody(480).map((each) => ({ ...each, data })),
        content: said(1_000),
      }))
    }
    case 'large ones':
      return post('/notifications', () => ({
        ...email,
        recipient: everybody(1)[0],
        content: said(1_000_000),
      }))
    case 'digests': {
      const body = {
        ...email,
        category: 'activity',
        template: 'new-comment',
        actor: `author-${serial % 50}`,
        recipient: everybody(20)[serial % 20],
      }
      const text = JSON.stringify({ ...body, content: said(1_000_000) })
      return { method: 'POST', path: '/notifications', body: text.replace(placeholder, `${serial}`) }
    }
    case 'event streams':
      return { method: 'GET', path: '/events' }
    case 'lists':
      return { method: 'GET', path: lists[serial % lists.length]!(serial % listed) }
  }
}

/** Recipients of whom the heavy tenant has a full page each. */
const listed = 40
const pageMax = 500
const lists = [
  () => `/notifications?category=none&limit=${pageMax}`,
  () => `/notifications?limit=${pageMax}`,
  (recipient: number) => `/recipients/user-${recipient}/timeline?limit=${pageMax}`,
]

/** Posts what the lists will show. */
async function fill(port: number): Promise<void> {
  const recipients = Array.from({ length: pageMax }, (_, n) => everybody(listed)[n % listed])
  const body = JSON.stringify({ ...email, recipients, content: { subject: 'Hello', text: 'World' } })
  const post = { port, tenant: 'heavy', method: 'POST', path: '/notifications/batch', body } as const
  for (let jobs = 0; jobs < listed; jobs += 1) {
    const status = await ask(post)
    if (status !== 202) throw new Error(`${status} instead of 202`)
  }
}

function heavy(): void {
  setPriority(constants.priority.PRIORITY_LOW)
  let isRunning = false
  let working: Promise<unknown> = Promise.resolve()
  const answers = new Map<number, number>()
  const streams: ClientRequest[] = []
  answer({
    fill,
    begin({ port, kind }: Heavy) {
      isRunning = true
      answers.clear()
      const lane = async (): Promise<void> => {
        while (isRunning) {
          const status = await ask({ port, tenant: 'heavy', ...requestOf(kind) }, (sent) => {
            if (kind === 'event streams') streams.push(sent)
          })
          answers.set(status, (answers.get(status) ?? 0) + 1)
          // Who is refused comes back, and not at once.
          if (status !== 202 && status !== 200) await sleep(20)
        }
      }
      working = Promise.all(Array.from({ length: lanes[kind] }, lane))
    },
    async end() {
      isRunning = false
      for (const stream of streams.splice(0)) stream.destroy()
      await working
      return [...answers].map(([status, count]) => `${count} × ${status}`).join(', ')
    },
  })
}

/** Between two requests of the quiet one. */
const everyMs = 25

export interface Waited {
  readonly tookMs: Float64Array
  /** The longest that this process was late itself. */
  readonly lateMs: number
}

function quiet(): void {
  let asked = 0
  answer({
    async run({ port, seconds }: { readonly port: number; readonly seconds: number }): Promise<Waited> {
      const delay = monitorEventLoopDelay({ resolution: 1 })
      delay.enable()
      const tookMs: Promise<number>[] = []
      const began = performance.now()
      for (let due = began; due < began + seconds * 1_000; due += everyMs) {
        const restMs = due - performance.now()
        if (restMs > 0) await sleep(restMs)
        tookMs.push(askAt(port, due))
      }
      const sorted = Float64Array.from(await Promise.all(tookMs)).sort()
      delay.disable()
      return { tookMs: sorted, lateMs: delay.max / 1e6 }
    },
  })

  async function askAt(port: number, due: number): Promise<number> {
    asked += 1
    const recipient = { id: `q-${asked}`, email: `q-${asked}@example.com` }
    const body = JSON.stringify({ ...email, recipient, content: { subject: 'Hello', text: 'World' } })
    const status = await ask({ port, tenant: 'quiet', method: 'POST', path: '/notifications', body })
    if (status !== 202) throw new Error(`${status} instead of 202`)
    return performance.now() - due
  }
}

const idleWaitMaxMs = 30_000

/** Waits until the gateway takes less than 2 % of a core, and ten small writes reach the disk in 3 ms each. */
async function awaitIdle(gateway: Peer): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-idle-'))
  const file = openSync(join(folder, 'probe'), 'w')
  const slowestSync = (): number => {
    let slowest = 0
    for (let count = 0; count < 10; count += 1) {
      writeSync(file, Buffer.alloc(4_096))
      const began = performance.now()
      fsyncSync(file)
      slowest = Math.max(slowest, performance.now() - began)
    }
    return slowest
  }
  try {
    const until = performance.now() + idleWaitMaxMs
    for (let isIdle = false; !isIdle && performance.now() < until; ) {
      const { cpuMicros } = await gateway.ask<Cost>('cost')
      await sleep(500)
      const used = (await gateway.ask<Cost>('cost')).cpuMicros - cpuMicros
      isIdle = used < 10_000 && slowestSync() < 3
    }
  } finally {
    closeSync(file)
    rmSync(folder, { recursive: true })
  }
}

const shown = (ms: number): string => ms.toFixed(1).padStart(6)

async function measure(): Promise<void> {
  const { seconds, only } = options('heavy')
  const loud = start('heavy.ts', 'heavy')
  const still = start('heavy.ts', 'quiet')
  for (const kind of kinds) {
    if (only !== '' && !only.split(',').includes(kind)) continue
    const gateway = start(
      'host.ts',
      'gateway.ts',
      JSON.stringify({ policy: kind === 'digests' ? 'default' : 'wide' }),
    )
    const port = await gateway.ask<number>('port')
    if (kind === 'lists') await loud.ask('fill', port)
    // Code that is not compiled yet would distort the measurement.
    await still.ask('run', { port, seconds: 2 })
    await awaitIdle(gateway)
    const alone = await still.ask<Waited>('run', { port, seconds: seconds / 2 })
    await loud.ask('begin', { port, kind } satisfies Heavy)
    let rss = 0
    let isOver = false
    const watch = (async () => {
      while (!isOver) {
        rss = Math.max(rss, (await gateway.ask<Cost>('cost')).rssBytes)
        await sleep(100)
      }
    })()
    const beside = await still.ask<Waited>('run', { port, seconds })
    isOver = true
    await watch
    const answered = await loud.ask<string>('end')
    const before = percentile(alone.tookMs, 0.99)
    const [p50, p99, longest] = [0.5, 0.99, 1].map((p) => percentile(beside.tookMs, p)) as [
      number,
      number,
      number,
    ]
    console.log(
      `${kind.padEnd(14)} p99 alone ${shown(before)} ms  beside it ${shown(p99)} ms (${(p99 / before).toFixed(1)} ×)  p50 ${shown(p50)} ms  longest ${shown(longest)} ms  client late ${shown(beside.lateMs)} ms  RSS ${Math.round(rss / 2 ** 20)} MiB  ${answered}`,
    )
    await gateway.stop()
  }
  await Promise.all([loud.stop(), still.stop()])
}

const role = process.argv[2]
if (role === 'heavy') heavy()
else if (role === 'quiet') quiet()
else await measure()
