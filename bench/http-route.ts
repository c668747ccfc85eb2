/**
 * The cost of intake over HTTP before any decision: the route POST /notifications in front of a gate that answers at
 * once, beside a Fastify route with the same schema that answers a constant. Each runs in a process of its own; one
 * client drives them in turn. Requests a second depend on the machine and its neighbours, so the CPU time of the
 * server process a request stands beside them, and only ratios of the same minute count.
 *
 *     npm run bench -- http-route [--seconds 2] [--rounds 5]
 */

import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { connect } from 'node:net'
import { createMemoryOnce } from '../packages/gateway/src/adapters/one-process.ts'
import { createHttpServer } from '../packages/gateway/src/http/server.ts'
import type { HttpServerOptions } from '../packages/gateway/src/http/server-options.ts'
import type { Decision, Notification } from '../packages/gateway/src/model.ts'
import type { AdmitRequest } from '../packages/gateway/src/stages.ts'
import { options } from './catalogue.ts'
import { open as openConstant } from './contestants/constant.ts'

const connections = 64

const body = JSON.stringify({
  recipient: { id: 'user-4242', email: 'ada.lovelace@example.com', timeZone: 'Europe/Rome' },
  channel: 'email',
  category: 'marketing',
  priority: 'normal',
  content: {
    subject: 'Your weekly digest is ready',
    text: 'Three people you follow have posted since you were last here. Open the app to see what is new, or change how often we write to you in your settings.',
  },
  data: { campaign: 'digest-47', template: 'weekly' },
})

const rule = { used: 0, max: 2, remaining: 2, freesAt: Date.UTC(2026, 10, 21), admits: true }
const decision: Decision = {
  outcome: 'send',
  at: Date.UTC(2026, 10, 21),
  policyVersion: '0123456789abcdef',
  rules: ['2/day', '5/week', '10/month'].map((window) => ({ ...rule, limit: 'marketing-email', window })),
}

const contestants: Readonly<Record<string, () => Promise<number>>> = {
  constant: async () => (await openConstant()).port,
  sluice,
}

async function sluice(): Promise<number> {
  let count = 0
  const parts = {
    gate: {
      async admit({ caller, drafts, answer }: AdmitRequest) {
        const results = drafts.map(({ shared: _, ...draft }) => {
          const notification: Notification = {
            ...draft,
            id: `01JD00000000000000000${++count}`,
            tenant: caller.tenant,
            module: caller.module,
            createdAt: 0,
            fingerprint: '',
            status: 'queued',
            dueAt: 0,
            decision,
            attempts: 0,
            timeline: [],
          }
          return { notification }
        })
        answer?.(results)
        return results
      },
    },
    erase: async () => {},
    jobs: { running: () => 0 },
    store: { answer: async () => undefined },
    ledger: { subscribe: () => () => {}, counts: () => ({}) },
    recipients: { cached: () => null, find: async () => null },
    clock: { now: () => Date.now() },
  } as unknown as Pick<
    HttpServerOptions,
    'gate' | 'erase' | 'jobs' | 'store' | 'ledger' | 'recipients' | 'replays' | 'clock'
  >
  const server = createHttpServer({
    once: createMemoryOnce(),
    ...parts,
    config: {
      host: '127.0.0.1',
      port: 0,
      drainMs: 1_000,
      overLimitStatus: 429,
      requestTimeoutMs: 10_000,
      connectionsMax: 10_000,
      bodyMaxBytes: 1_048_576,
      batchBodyMaxBytes: 8_388_608,
      dataMaxBytes: 65_536,
    },
    policy: {} as HttpServerOptions['policy'],
    templates: { has: () => true, hasSubject: () => true },
    channels: ['email'],
    pools: () => [],
    poolsView: { details: () => [], past: () => undefined },
    policyPreview: () => Promise.reject(new TypeError('no policy is previewed here')),
    holds: { list: () => [], put: async (hold) => ({ ...hold, since: 0 }), end: async () => false },
    log: console,
    editor: { edit: async () => ({}) as never, alone: async () => {} },
    feedback: { report: async () => {} },
    webhooks: { take: async () => 0 },
  })
  return Number(new URL(await server.listen()).port)
}

interface Round {
  readonly perSecond: number
  readonly cpuMicros: number
}

/** Keeps every connection busy with one request at a time. */
async function drive(port: number, seconds: number, keyed: boolean): Promise<number> {
  let done = 0
  let serial = 0
  const run = Math.random().toString(36).slice(2)
  const head = 'POST /api/v1/notifications HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n'
  const tail = `content-length: ${body.length}\r\n\r\n${body}`
  const plain = Buffer.from(head + tail)
  const next = () => (keyed ? Buffer.from(`${head}idempotency-key: ${run}-${++serial}\r\n${tail}`) : plain)
  const until = performance.now() + seconds * 1_000
  await Promise.all(
    Array.from({ length: connections }, async () => {
      const socket = connect(port, '127.0.0.1').setNoDelay()
      await once(socket, 'connect')
      socket.on('data', (chunk: Buffer) => {
        // Answers are small: each comes in one piece, which begins with its status.
        if (chunk.toString('latin1', 9, 12) !== '202') throw new Error(chunk.toString())
        done += 1
        if (performance.now() < until) socket.write(next())
        else socket.end()
      })
      socket.write(next())
      await once(socket, 'close')
    }),
  )
  return done
}

async function start(name: string): Promise<{ child: ChildProcess; port: number }> {
  const child = fork(import.meta.filename, ['--serve', name], { execArgv: ['--conditions=sluice-source'] })
  const [{ port }] = (await once(child, 'message')) as [{ port: number }]
  return { child, port }
}

async function cpuOf(child: ChildProcess): Promise<number> {
  child.send('cpu')
  const [{ cpu }] = (await once(child, 'message')) as [{ cpu: number }]
  return cpu
}

const median = (values: readonly number[]): number => values.toSorted((a, b) => a - b)[values.length >> 1]!

async function serve(name: string): Promise<void> {
  const port = await contestants[name]!()
  process.on('message', () => {
    const { user, system } = process.cpuUsage()
    process.send!({ cpu: user + system })
  })
  process.on('disconnect', () => process.exit())
  process.send!({ port })
}

async function compare({ seconds, rounds }: { seconds: number; rounds: number }): Promise<void> {
  const cases = [
    { name: 'constant', server: 'constant', keyed: false },
    { name: 'sluice', server: 'sluice', keyed: false },
    { name: 'sluice, with Idempotency-Key', server: 'sluice', keyed: true },
  ]
  const running = new Map<string, { child: ChildProcess; port: number }>()
  for (const name of Object.keys(contestants)) running.set(name, await start(name))
  const results = new Map<string, Round[]>(cases.map(({ name }) => [name, []]))
  for (let round = -1; round < rounds; round += 1) {
    for (const { name, server, keyed } of cases) {
      const { child, port } = running.get(server)!
      const before = await cpuOf(child)
      const startedAt = performance.now()
      const done = await drive(port, round < 0 ? 1 : seconds, keyed)
      const took = performance.now() - startedAt
      const cpuMicros = ((await cpuOf(child)) - before) / done
      // The first round warms up.
      if (round >= 0) results.get(name)!.push({ perSecond: (done / took) * 1_000, cpuMicros })
    }
  }
  for (const { child } of running.values()) child.disconnect()
  const of = (name: string, key: keyof Round) => results.get(name)!.map((round) => round[key])
  console.log('                                  requests/s   ratio   CPU µs   ratio')
  for (const { name } of cases) {
    const ratios = (key: keyof Round) =>
      median(of(name, key).map((value, round) => value / of('constant', key)[round]!))
    const columns = [
      name.padEnd(32),
      median(of(name, 'perSecond')).toFixed(0).padStart(12),
      ratios('perSecond').toFixed(2).padStart(7),
      median(of(name, 'cpuMicros')).toFixed(1).padStart(8),
      ratios('cpuMicros').toFixed(2).padStart(7),
    ]
    console.log(columns.join(' '))
  }
}

const [, , role, served] = process.argv
if (role === '--serve') await serve(served!)
else await compare(options('http-route'))
