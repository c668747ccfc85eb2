/**
 * From POST to settled in one process: ours beside the stack that a team would join together today (contestants/
 * stack.js) on a private Redis with its log flushed every second. Both take the same requests, with a provider that
 * accepts at once. Singles and batches of 100 in a closed loop, then singles at half the rate that each itself
 * reached, where latency is measured. Every round has fresh processes.
 *
 *     npm run bench -- end-to-end [--rounds 5] [--messages 30000]
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { options } from './catalogue.ts'
import { save } from './figures.ts'
import type { Load } from './load.ts'
import { type Peer, start } from './process.ts'
import { type Phase, settle } from './settle.ts'

const { rounds, messages } = options('end-to-end')
const load = start('load.ts')

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as { port: number }
  server.close()
  await once(server, 'close')
  return port
}

/** A private one, flushing its log every second. */
async function startRedis() {
  const port = await freePort()
  const folder = mkdtempSync(join(tmpdir(), 'sluice-bench-redis-'))
  const args = `--port ${port} --bind 127.0.0.1 --save  --appendonly yes --appendfsync everysec --loglevel warning`
  const child = spawn('redis-server', [...args.split(' '), '--dir', folder], { stdio: 'ignore' })
  const failed = once(child, 'error').then(([error]) => {
    throw new Error('redis-server is needed for what ours is compared with (npm run services)', {
      cause: error,
    })
  })
  await Promise.race([failed, once(child, 'spawn')])
  for (let tries = 0; !(await isOpen(port)); tries += 1) {
    if (tries > 100) throw new Error('redis-server does not answer')
    await sleep(50)
  }
  return {
    port,
    async stop() {
      child.kill('SIGTERM')
      await once(child, 'exit')
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

async function isOpen(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1')
  try {
    await once(socket, 'connect')
    return true
  } catch {
    return false
  } finally {
    socket.destroy()
  }
}

interface Round {
  readonly single: Phase
  readonly half: Phase
  readonly batch: Phase
}

async function round(host: Peer, path: string): Promise<Round> {
  let first = 0
  const run = (total: number, more: Partial<Load> = {}): Promise<Phase> => {
    const from = first
    first += total
    return settle(load, host, { path, total, first: from, ...more })
  }
  await run(Math.ceil(messages / 2))
  await run(Math.ceil(messages / 2), { batch: 100, path: `${path}/batch` })
  const single = await run(messages)
  const half = await run(Math.ceil(messages / 2), { rate: single.perSecond / 2 })
  const batch = await run(messages * 2, { batch: 100, path: `${path}/batch` })
  return { single, half, batch }
}

const found = { ours: [] as Round[], stack: [] as Round[] }
for (let n = 0; n < rounds; n += 1) {
  const redis = await startRedis()
  const stack = start('host.ts', 'stack.js', JSON.stringify({ redisPort: redis.port }))
  found.stack.push(await round(stack, '/notifications'))
  await stack.stop()
  await redis.stop()
  const ours = start('host.ts', 'gateway.ts', JSON.stringify({ policy: 'wide' }))
  found.ours.push(await round(ours, '/api/v1/notifications'))
  await ours.stop()
}
await load.stop()

const compare = (what: string, unit: string, of: (round: Round) => number) => ({
  what,
  unit,
  ours: found.ours.map(of),
  against: { name: 'Fastify + rate-limiter-flexible + BullMQ', figures: found.stack.map(of) },
})
const halfP99 = compare('sent → settled at half load, p99', 'ms', ({ half }) => half.latencyP99Ms)
save({
  name: 'end-to-end',
  title:
    'POST → limits → queue → provider → settled and on record, in one process, beside the stack a team would join together today.',
  rounds,
  comparisons: [
    {
      ...compare('single requests, settled', 'messages/s', ({ single }) => single.perSecond),
      goal: { min: 2.5 },
    },
    {
      ...compare('in batches of 100, settled', 'messages/s', ({ batch }) => batch.perSecond),
      goal: { min: 6 },
    },
    { what: halfP99.what, unit: halfP99.unit, ours: halfP99.ours, goal: { max: 20 } },
    { ...halfP99, what: 'the same, beside the stack at half of its own rate' },
    compare('sent → settled at half load, p50', 'ms', ({ half }) => half.latencyP50Ms),
    compare('CPU of the process, a single message', 'µs', ({ single }) => single.cpuMicros),
    compare('CPU of the process, a message in a batch', 'µs', ({ batch }) => batch.cpuMicros),
  ],
  notes: [
    `${messages} single messages, ${messages * 2} in batches, 64 connections, 10,000 people of 10 tenants, after half as many of each to warm up, because V8 compiles for some 30,000 messages; all were settled exactly once.`,
    'Ours is on disk before it answers (`synchronous=FULL`); the stack loses up to a second with the machine (`appendfsync everysec`). The CPU of its Redis is not in its figures.',
  ],
})
