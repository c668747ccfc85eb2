/**
 * Durable accepts over HTTP, one notification a request, beside the same Fastify route answering a constant. What is
 * accepted is for tomorrow, so that accepting is measured and not sending; a second row has both at once. The delay of
 * the event loop under that load says whether a commit ever stops it.
 *
 *     npm run bench -- accept-http [--rounds 5] [--requests 20000]
 */
import { options } from './catalogue.ts'
import { median, save } from './figures.ts'
import type { Cost } from './host.ts'
import type { Load, Loaded } from './load.ts'
import { type Peer, start } from './process.ts'

const { rounds, requests } = options('accept-http')
const path = '/api/v1/notifications'
const load = start('load.ts')
const tomorrow = new Date(Date.now() + 86_400_000).toISOString()

const hosts = {
  constant: start('host.ts', 'constant.ts'),
  wide: start('host.ts', 'gateway.ts', JSON.stringify({ policy: 'wide' })),
  default: start('host.ts', 'gateway.ts', JSON.stringify({ policy: 'default' })),
}
const cases: { name: string; host: Peer; more: Partial<Load> }[] = [
  { name: 'constant', host: hosts.constant, more: { recipients: 100_000, sendAt: tomorrow } },
  { name: 'accepting', host: hosts.wide, more: { recipients: 100_000, sendAt: tomorrow } },
  { name: 'accepting and sending', host: hosts.wide, more: { recipients: 100_000 } },
  { name: 'default policy', host: hosts.default, more: { category: 'product', sendAt: tomorrow } },
]

interface Round {
  readonly perSecond: number
  readonly cpuMicros: number
  readonly delayP99Ms: number
}

let first = 0
async function measure({ host, more }: (typeof cases)[number], total: number): Promise<Round> {
  const port = await host.ask<number>('port')
  const before = await host.ask<Cost>('cost')
  await host.ask('delayP99Ms')
  const loaded = await load.ask<Loaded>('run', { port, path, connections: 64, total, first, ...more })
  const after = await host.ask<Cost>('cost')
  const delayP99Ms = await host.ask<number>('delayP99Ms')
  first += total
  if (loaded.statuses['202'] !== total)
    throw new Error(`not all accepted: ${JSON.stringify(loaded.statuses)}`)
  const took = loaded.acknowledged.reduce((a, b) => Math.max(a, b)) - loaded.sent[0]!
  const cpuMicros = (after.cpuMicros - before.cpuMicros) / total
  return { perSecond: (total / took) * 1_000, cpuMicros, delayP99Ms }
}

const found = new Map<string, Round[]>(cases.map(({ name }) => [name, []]))
for (let round = -1; round < rounds; round += 1) {
  for (const each of cases) {
    const figures = await measure(each, round < 0 ? Math.ceil(requests / 4) : requests)
    // The first round warms up.
    if (round >= 0) found.get(each.name)!.push(figures)
  }
}
await Promise.all([load, ...Object.values(hosts)].map((peer) => peer.stop()))

const of = (name: string, key: keyof Round): number[] => found.get(name)!.map((round) => round[key])
const route = 'the same Fastify route answering a constant'
const compare = (what: string, name: string, key: keyof Round, unit: string) => ({
  what,
  unit,
  ours: of(name, key),
  against: { name: route, figures: of('constant', key) },
})
save({
  name: 'accept-http',
  title: 'Durable accepts over HTTP, one notification a request, 64 connections, store on disk.',
  rounds,
  comparisons: [
    { ...compare('accepts over HTTP', 'accepting', 'perSecond', 'requests/s'), goal: { min: 0.5 } },
    compare(
      'the same, while all of it is also sent and settled',
      'accepting and sending',
      'perSecond',
      'requests/s',
    ),
    compare(
      'accepts under the default policy, every person new',
      'default policy',
      'perSecond',
      'requests/s',
    ),
    compare('CPU of all threads, a request', 'accepting', 'cpuMicros', 'µs'),
    compare('delay of the event loop under that load, p99', 'accepting', 'delayP99Ms', 'ms'),
  ],
  notes: [
    `${requests} requests a round; each was answered after its commit was on disk (\`synchronous=FULL\`).`,
    `Server CPU ${median(of('accepting', 'cpuMicros')).toFixed(0)} µs a request, of which the store's own thread has a part.`,
  ],
})
