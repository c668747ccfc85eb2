/**
 * The share of an account's rate that a new process uses over real sockets while more waits than it may send: the backlog was
 * accepted by the process before it. From the first call on, in the first 5 s and after them, counted by a sink in
 * another process. With how long the first twenty calls and those after 5 s took from their leaving until they were
 * answered, which is what warming could save.
 *
 *     npm run bench -- account-rate [--rounds 1] [--seconds 20] [--busy] [--rate 1000/s]
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { availableParallelism, loadavg } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { createSite, type Site, startSink } from '../packages/gateway/test/child.ts'
import { overfull, percentile, slackMs } from '../packages/gateway/test/guarantees/windows.ts'
import type { SunkRequest } from '../packages/gateway/test/sinks/http.ts'
import { options } from './catalogue.ts'

const { rounds, seconds, busy, rate: only } = options('account-rate')
const rates = [
  { rate: '50/5s', max: 50, windowMs: 5_000 },
  { rate: '40/s', max: 40, windowMs: 1_000 },
  { rate: '20/s', max: 20, windowMs: 1_000 },
  { rate: '1000/s', max: 1_000, windowMs: 1_000 },
] as const
const firstCalls = 20
const coldMs = 5_000
const batchMax = 100
const leadMs = 12_000

const ends: (() => unknown)[] = []
const t = { after: (end: () => unknown) => void ends.push(end) }
const programs: ChildProcess[] = busy
  ? Array.from({ length: availableParallelism() }, () =>
      spawn(process.execPath, ['-e', 'for (;;) {}'], { stdio: 'ignore' }),
    )
  : []

/** Accepts what is to wait, for later than it takes to accept it. */
async function give(site: Site, count: number): Promise<void> {
  const sendAt = new Date(Date.now() + leadMs).toISOString()
  for (let given = 0; given < count; given += batchMax) {
    const recipients = Array.from({ length: Math.min(batchMax, count - given) }, (_, index) => ({
      id: `user-${given + index}`,
    }))
    const body = { channel: 'webhook', content: { text: 'message' }, sendAt, recipients }
    const { status, text } = await site.call('POST', '/api/v1/notifications/batch', body)
    if (status !== 202) throw new Error(text)
  }
}

/** From its leaving until its answer, by the gateway's own timeline, ms. */
async function tookMs(site: Site, request: SunkRequest): Promise<number> {
  const id = request.headers['webhook-id']
  const { timeline } = (await site.call('GET', `/api/v1/notifications/${id}`)).json<{
    timeline: { at: string; status: string }[]
  }>()
  const at = (status: string) => Date.parse(timeline.find((event) => event.status === status)?.at ?? '')
  return at('delivered') - at('sending')
}

async function measure({ rate, max, windowMs }: (typeof rates)[number]): Promise<string> {
  const sink = await startSink(t, 'http')
  const site = await createSite(t, {
    policy: { version: 1, limits: [] },
    config: {
      tenants: { default: { rate: 'unlimited', modules: 'unlimited', reads: 'unlimited', queue: 100_000 } },
      pools: {
        webhook: { provider: 'webhook', shedAfter: '1h', accounts: [{ id: 'a', url: sink.url, rate }] },
      },
    },
  })
  await site.start()
  const begunAt = performance.now()
  await give(site, Math.ceil(max * ((seconds * 1_000) / windowMs + 2)))
  await site.terminate()
  await sleep(begunAt + leadMs - performance.now())
  await site.start()
  const readyAt = performance.timeOrigin + performance.now()
  await sleep(seconds * 1_000 + 4_000)
  const { requests } = await sink.dump()
  const instants = requests.map(({ at }) => at)
  const first = instants[0]!
  const used = (fromMs: number, toMs: number): string => {
    const count = instants.filter((at) => at >= first + fromMs && at < first + toMs).length
    return `${((100 * count * windowMs) / max / (toMs - fromMs)).toFixed(1)} %`
  }
  const early = await Promise.all(requests.slice(0, firstCalls).map((each) => tookMs(site, each)))
  const after = requests.filter(({ at }) => at >= first + coldMs).slice(0, firstCalls)
  const later = await Promise.all(after.map((each) => tookMs(site, each)))
  const within = instants.filter((at) => at < first + seconds * 1_000)
  await site.kill()
  return [
    rate.padEnd(8),
    `${Math.round(first - readyAt)} ms`.padStart(9),
    `${percentile(early, 0.5)}/${Math.max(...early)} ms`.padStart(12),
    `${percentile(later, 0.5)}/${Math.max(...later)} ms`.padStart(12),
    String(new Set(requests.map(({ connection }) => connection)).size).padStart(6),
    used(0, coldMs).padStart(9),
    used(coldMs, seconds * 1_000).padStart(9),
    String(overfull(within, { max, windowMs })).padStart(6),
    `${slackMs(within, { max, windowMs }).toFixed(1)} ms`.padStart(9),
  ].join(' ')
}

try {
  console.log(`load ${loadavg()[0]!.toFixed(1)}${busy ? ', every core kept busy besides' : ''}`)
  console.log('rate     ready→1st   first 20     after 5 s   conns   to 5 s   to the end  over   margin')
  for (let round = 0; round < rounds; round += 1)
    for (const each of rates.filter(({ rate }) => only === 'all' || only === rate))
      console.log(await measure(each))
} finally {
  for (const child of programs) child.kill('SIGKILL')
  for (const end of ends) await end()
}
