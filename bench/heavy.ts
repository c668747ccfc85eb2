/**
 * The heaviest that one tenant may ask for, beside others that behave: batches and jobs whose content times recipients
 * is at the bound, bodies of 8 MiB, large single requests, lists and timelines of many, 50 event streams, items of
 * digests at the size of a request. The gateway, the heavy tenant and the quiet one are a process each. What is measured
 * is how long the quiet one waits for its answer, one request after the other, and the memory of the gateway.
 *
 *     npm run bench -- heavy [--seconds 5]
 */
import { type ClientRequest, request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { options } from './catalogue.ts'
import { percentile } from './figures.ts'
import type { Cost } from './host.ts'
import { answer, start } from './process.ts'

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

const role = process.argv[2]
if (role === 'heavy') heavy()
else if (role === 'quiet') quiet()
else await measure()

interface Asked {
  readonly port: number
  readonly tenant: string
  readonly method: 'GET' | 'POST'
  readonly path: string
  readonly body?: string
}

/** The status, when the answer is there as a whole. */
function ask(
  { port, tenant, method, path, body }: Asked,
  opened?: (sent: ClientRequest) => void,
): Promise<number> {
  return new Promise((resolve) => {
    const headers = {
      'x-tenant-id': tenant,
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    }
    const sent = request({ port, host: '127.0.0.1', method, path: `/api/v1${path}`, headers }, (response) => {
      response.resume()
      response.on('close', () => resolve(response.statusCode ?? 0))
    })
    sent.on('error', () => resolve(0))
    opened?.(sent)
    sent.end(body)
  })
}

const people = (count: number) =>
  Array.from({ length: count }, (_, n) => ({ id: `user-${n}`, email: `user-${n}@example.com` }))

let serial = 0
/** `bytes` as JSON, different each time. */
function said(bytes: number) {
  serial += 1
  const letters = Math.floor((bytes - 60) / 2)
  // Text and html take a mebibyte of letters each; above it each letter has three bytes.
  const text = letters > 2 ** 20 ? '€'.repeat(Math.floor(letters / 3)) : 'x'.repeat(letters)
  return { subject: `${serial}`, text, html: text }
}

const email = { channel: 'email', category: 'marketing' } as const
const atOnce = (count: number): number => Math.floor((256 * 2 ** 20) / count)

function bodyOf(kind: Kind): Pick<Asked, 'method' | 'path' | 'body'> {
  const post = (path: string, body: object) => ({ method: 'POST', path, body: JSON.stringify(body) }) as const
  switch (kind) {
    case 'batches':
      return post('/notifications/batch', { ...email, recipients: people(100), content: said(atOnce(100)) })
    case 'jobs':
      return post('/notifications/batch', { ...email, recipients: people(500), content: said(atOnce(500)) })
    case 'own data': {
      const data = Object.fromEntries(Array.from({ length: 1_000 }, (_, n) => [`key-${n}`, n]))
      const recipients = people(480).map((each) => ({ ...each, data }))
      return post('/notifications/batch', { ...email, recipients, content: said(1_000) })
    }
    case 'large ones':
      return post('/notifications', { ...email, recipient: people(1)[0], content: said(1_000_000) })
    case 'digests':
      return post('/notifications', {
        ...email,
        category: 'activity',
        template: 'new-comment',
        actor: `author-${serial % 50}`,
        recipient: people(20)[serial % 20],
        content: said(1_000_000),
      })
    case 'event streams':
      return { method: 'GET', path: '/events' }
    case 'lists':
      serial += 1
      return serial % 2 === 0
        ? { method: 'GET', path: '/notifications?category=none&limit=500' }
        : { method: 'GET', path: `/recipients/user-${serial % 400}/timeline?limit=500` }
  }
}

function heavy(): void {
  let isRunning = false
  let working: Promise<unknown> = Promise.resolve()
  const answers = new Map<number, number>()
  const streams: ClientRequest[] = []
  answer({
    begin({ port, kind }: Heavy) {
      isRunning = true
      answers.clear()
      const lane = async (): Promise<void> => {
        while (isRunning) {
          const status = await ask({ port, tenant: 'heavy', ...bodyOf(kind) }, (sent) => {
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

function quiet(): void {
  answer({
    async run({ port, seconds }: { readonly port: number; readonly seconds: number }) {
      const tookMs: number[] = []
      for (const end = performance.now() + seconds * 1_000; performance.now() < end; ) {
        const began = performance.now()
        const recipient = { id: `q-${tookMs.length}`, email: `q-${tookMs.length}@example.com` }
        const body = JSON.stringify({ ...email, recipient, content: { subject: 'Hello', text: 'World' } })
        const status = await ask({ port, tenant: 'quiet', method: 'POST', path: '/notifications', body })
        if (status !== 202) throw new Error(`${status} instead of 202`)
        tookMs.push(performance.now() - began)
        await sleep(5)
      }
      return Float64Array.from(tookMs).sort()
    },
  })
}

async function measure(): Promise<void> {
  const { seconds } = options('heavy')
  const loud = start('heavy.ts', 'heavy')
  const still = start('heavy.ts', 'quiet')
  for (const kind of [undefined, ...kinds]) {
    const gateway = start(
      'host.ts',
      'gateway.ts',
      JSON.stringify({ policy: kind === 'digests' ? 'default' : 'wide' }),
    )
    const port = await gateway.ask<number>('port')
    await still.ask('run', { port, seconds: 1 })
    if (kind !== undefined) await loud.ask('begin', { port, kind } satisfies Heavy)
    let rss = 0
    let isOver = false
    const watch = (async () => {
      while (!isOver) {
        rss = Math.max(rss, (await gateway.ask<Cost>('cost')).rssBytes)
        await sleep(100)
      }
    })()
    const sorted = await still.ask<Float64Array>('run', { port, seconds })
    isOver = true
    await watch
    const answered = kind === undefined ? '' : await loud.ask<string>('end')
    const figures = [0.5, 0.99, 1].map((p) => percentile(sorted, p).toFixed(1).padStart(6))
    console.log(
      `${(kind ?? 'alone').padEnd(14)} p50 ${figures[0]} ms  p99 ${figures[1]} ms  longest ${figures[2]} ms  RSS ${Math.round(rss / 2 ** 20)} MiB  ${answered}`,
    )
    await gateway.stop()
  }
  await Promise.all([loud.stop(), still.stop()])
}
