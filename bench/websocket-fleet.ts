/**
 * The time from a POST at one gateway until a WebSocket client at another has the notification: two gateways as processes
 * over a real PostgreSQL and a real Redis, at a steady pace, each notification for a recipient who is connected to the
 * gateway that did not accept it. A goal of 50 ms from the 202 to the arrival is held at the 99th percentile.
 *
 *     npm run services -- run postgres redis -- npm run bench -- websocket-fleet [--seconds 10] [--pace 100]
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { WebSocket } from 'ws'
import { startFleet } from '../packages/gateway/test/guarantees/fleet.ts'
import { dropSchemas } from '../packages/gateway/test/store/postgres/database.ts'
import { options } from './catalogue.ts'
import { percentile } from './figures.ts'

const { seconds, pace } = options('websocket-fleet')
if (process.env.SLUICE_TEST_POSTGRES === undefined || process.env.SLUICE_TEST_REDIS === undefined)
  throw new Error('no engines: npm run services -- run postgres redis -- npm run bench -- websocket-fleet')

const recipients = 50
const goalMs = 50

interface Sample {
  sentAt: number
  acceptedAt?: number
  heardAt?: number | undefined
}

const ends: (() => unknown)[] = []
const fleet = await startFleet(
  { after: (end: unknown) => void ends.push(end as () => unknown) } as Parameters<typeof startFleet>[0],
  { name: 'bench', policy: { version: 1, limits: [] }, beatMs: 2_000 },
)
const samples = new Map<string, Sample>()
const early = new Map<string, number>()
const clients: WebSocket[] = []

/** Connects the recipients of one gateway: their names end with its number. */
async function connect(at: number, n: number): Promise<void> {
  const client = new WebSocket(`${fleet.sites[at]!.url.replace('http', 'ws')}/ws`)
  clients.push(client)
  await new Promise<void>((resolve, reject) => {
    client.once('error', reject)
    client.once('open', () =>
      client.send(JSON.stringify({ type: 'subscribe', channel: `recipient:${n} at ${at}` })),
    )
    client.on('message', (bytes: Buffer) => {
      const { type, data } = JSON.parse(bytes.toString()) as {
        type: string
        data?: { readonly notificationId: string }
      }
      if (type === 'subscribed') resolve()
      if (type !== 'message') return
      const id = data!.notificationId
      const sample = samples.get(id)
      // It may come before the answer that names it.
      if (sample === undefined) early.set(id, performance.now())
      else sample.heardAt ??= performance.now()
    })
  })
}

async function post(n: number): Promise<void> {
  const at = n % 2
  const sample: Sample = { sentAt: performance.now() }
  const recipient = { id: `${n % recipients} at ${1 - at}` }
  const { status, text } = await fleet.post(at, { body: { recipient, channel: 'websocket' } })
  if (status !== 202) throw new Error(text)
  sample.acceptedAt = performance.now()
  const { notificationId } = JSON.parse(text) as { readonly notificationId: string }
  sample.heardAt = early.get(notificationId)
  samples.set(notificationId, sample)
}

/** Posts at the pace for so long, and waits for the last. */
async function run(forMs: number): Promise<void> {
  samples.clear()
  const begun = performance.now()
  const posts: Promise<void>[] = []
  while (performance.now() - begun < forMs) {
    while (posts.length < ((performance.now() - begun) / 1_000) * pace) posts.push(post(posts.length))
    await sleep(2)
  }
  await Promise.all(posts)
  const end = performance.now() + 10_000
  while ([...samples.values()].some(({ heardAt }) => heardAt === undefined) && performance.now() < end)
    await sleep(10)
}

try {
  for (let n = 0; n < recipients; n += 1) await Promise.all([connect(0, n), connect(1, n)])
  await run(2_000)
  await run(seconds * 1_000)
  const all = [...samples.values()]
  const heard = all.filter(({ heardAt }) => heardAt !== undefined)
  const show = (what: string, figures: readonly number[]): number => {
    const sorted = figures.toSorted((a, b) => a - b)
    const ms = (share: number): string => percentile(sorted, share).toFixed(1)
    console.log(`${what.padEnd(24)} p50 ${ms(0.5)} ms  p99 ${ms(0.99)} ms  at most ${ms(1)} ms`)
    return percentile(sorted, 0.99)
  }
  console.log(`${all.length} accepted at one gateway, ${heard.length} heard at the other, ${pace}/s`)
  show(
    'POST → 202',
    all.map(({ sentAt, acceptedAt }) => acceptedAt! - sentAt),
  )
  const p99 = show(
    '202 → heard',
    heard.map(({ acceptedAt, heardAt }) => heardAt! - acceptedAt!),
  )
  show(
    'POST → heard',
    heard.map(({ sentAt, heardAt }) => heardAt! - sentAt),
  )
  console.log(`p99 from accepted to heard ${p99 <= goalMs ? 'within' : 'ABOVE'} ${goalMs} ms`)
  if (p99 > goalMs || heard.length < all.length) process.exitCode = 1
} finally {
  for (const client of clients) client.terminate()
  for (const end of ends) await end()
  await dropSchemas()
}
