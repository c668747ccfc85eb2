/**
 * Where the CPU of a message goes, by thread: the event loop, the store's thread, and V8's helpers (which compile and
 * collect garbage). Over HTTP and at the gate, one by one and in batches of 100: until everything is settled, and, for
 * tomorrow, accepted only. People are new, or known to the process already. CPU time, since it tells more than messages
 * a second where others work too. Linux only.
 *
 *     npm run bench -- threads [--rounds 5] [--messages 6000]
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { options } from './catalogue.ts'
import { median } from './figures.ts'
import type { Cost, Threads } from './host.ts'
import { type Peer, start } from './process.ts'

const { rounds, messages } = options('threads')
const path = '/api/v1/notifications'
const load = start('load.ts')

type Micros = readonly [main: number, store: number, helpers: number]
type Send = (host: Peer, total: number, first: number) => Promise<unknown>

/** The store's thread is the busiest of the others. */
function micros(before: Threads, after: Threads, total: number): Micros {
  const others = Object.entries(after.others).sort(([, a], [, b]) => b - a)
  const [store = 0, ...helpers] = others.map(([task, spent]) => spent - (before.others[task] ?? 0))
  return [(after.main - before.main) / total, store / total, helpers.reduce((a, b) => a + b, 0) / total]
}

async function measure(what: string, send: Send, settles = true): Promise<void> {
  const host = start('host.ts', 'gateway.ts', JSON.stringify({ policy: 'wide' }))
  const found: Micros[] = []
  let first = 0
  // The first round warms up.
  for (let round = -1; round < rounds; round += 1) {
    const total = round < 0 ? 2 * messages : messages
    const before = await host.ask<Threads>('threads')
    await send(host, total, first)
    while (settles && (await host.ask<Cost>('cost')).settled < total) await sleep(10)
    const after = await host.ask<Threads>('threads')
    await host.ask('take')
    first += total
    if (round >= 0) found.push(micros(before, after, total))
  }
  await host.stop()
  const of = (index: 0 | 1 | 2): string => median(found.map((each) => each[index])).toFixed(0)
  console.log(`${what}: event loop ${of(0)} · store ${of(1)} · helpers ${of(2)} µs a message`)
}

const overHttp =
  (recipients: number, more: object): Send =>
  async (host, total, first) => {
    const port = await host.ask<number>('port')
    return load.ask('run', { port, path, connections: 64, recipients, total, first, ...more })
  }

const atTheGate =
  (recipients: number, more: object = {}): Send =>
  (host, count, first) =>
    host.ask('admit', { first, count, batch: 1, recipients, lanes: 64, ...more })

const inBatches = { path: `${path}/batch`, batch: 100 }

for (const [who, recipients] of [
  ['new people', 10_000],
  ['known people', 100],
] as const) {
  await measure(`HTTP, one by one, ${who}`, overHttp(recipients, {}))
  await measure(`HTTP, in batches of 100, ${who}`, overHttp(recipients, inBatches))
  await measure(`gate, one by one, ${who}`, atTheGate(recipients))
}

const tomorrow = Date.now() + 86_400_000
const recipients = 100_000
const later = { sendAt: new Date(tomorrow).toISOString() }
await measure('HTTP, one by one, for tomorrow', overHttp(recipients, later), false)
await measure(
  'HTTP, in batches of 100, for tomorrow',
  overHttp(recipients, { ...inBatches, ...later, connections: 8 }),
  false,
)
await measure('gate, one by one, for tomorrow', atTheGate(recipients, { sendAt: tomorrow }), false)
await measure(
  'gate, in batches of 100, for tomorrow',
  atTheGate(recipients, { sendAt: tomorrow, batch: 100, lanes: 8 }),
  false,
)
await load.stop()
