/**
 * A million scheduled notifications: the speed of accepting and of releasing in a gateway that holds them, beside one
 * that is empty, in turn; and the memory of both processes. Released is what becomes due at one instant, from that
 * instant to the last settlement.
 *
 *     npm run bench -- scheduled [--rounds 5] [--full 1000000] [--rows 5000]
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { options } from './catalogue.ts'
import { save } from './figures.ts'
import type { Cost } from './host.ts'
import { idleMegabytes } from './idle.ts'
import { type Peer, start } from './process.ts'
import { type Released, release } from './release.ts'

const { rounds, full, rows } = options('scheduled')
const hourMs = 3_600_000
const recipients = 100_000
const megabytes = ({ rssBytes }: Cost): number => rssBytes / 2 ** 20

const begun = performance.now()
const empty = start('host.ts', 'gateway.ts', JSON.stringify({ policy: 'wide' }))
await empty.ask('port')
const startMs = performance.now() - begun
const filled = start('host.ts', 'gateway.ts', JSON.stringify({ policy: 'wide' }))
await filled.ask('port')
await sleep(1_000)
const idle = await idleMegabytes()

let first = 0
async function fill(): Promise<number> {
  const from = Date.now() + 2 * hourMs
  const span = { from, to: from + 48 * hourMs }
  let tookMs = 0
  for (let left = full; left > 0; left -= 50_000) {
    const count = Math.min(left, 50_000)
    tookMs += await filled.ask<number>('admit', { first, count, batch: 100, recipients: full, sendAt: span })
    first += count
  }
  return (full / tookMs) * 1_000
}

async function measure(host: Peer): Promise<Released> {
  const measured = await release(host, { first, rows, recipients })
  first += rows
  return measured
}

const filledPerSecond = await fill()
const found = { empty: [] as Released[], filled: [] as Released[] }
let waiting = 0
for (let round = -1; round < rounds; round += 1) {
  const inEmpty = await measure(empty)
  const inFilled = await measure(filled)
  waiting = Math.max(waiting, megabytes(await filled.ask<Cost>('cost')))
  // The first round warms up.
  if (round < 0) continue
  found.empty.push(inEmpty)
  found.filled.push(inFilled)
}
await Promise.all([empty.stop(), filled.stop()])

const compare = (what: string, key: keyof Released) => ({
  what,
  unit: 'notifications/s',
  ours: found.filled.map((round) => round[key]),
  against: { name: 'the same gateway with an empty store', figures: found.empty.map((round) => round[key]) },
})
const goal = <T extends object>(bound: T): { goal?: T } => (full >= 1_000_000 ? { goal: bound } : {})
/** A figure above the bound with fewer notifications is above it with a million. */
const memoryGoal = waiting > 400 ? { goal: { max: 400 } } : goal({ max: 400 })
const million = `${full.toLocaleString('en-US')} waiting`
save({
  name: 'scheduled',
  title: `A gateway with ${full.toLocaleString('en-US')} scheduled notifications beside one with none.`,
  rounds,
  comparisons: [
    { ...compare(`accepting with ${million}`, 'accepted'), ...goal({ min: 0.9 }) },
    { ...compare(`releasing with ${million}`, 'released'), ...goal({ min: 0.9 }) },
    { what: `memory with ${million}`, unit: 'MB RSS', ours: [waiting], ...memoryGoal },
    { what: 'memory of an idle gateway', unit: 'MB RSS', ours: [idle], goal: { max: 120 } },
    { what: 'start of the process until it answers', unit: 'ms', ours: [startMs] },
  ],
  notes: [
    'The goals are for 1,000,000 waiting; with fewer, only what is above a bound already is held against it. Both processes run from the TypeScript source, whose compiler is part of their memory; the idle gateway is a third one, built as it is published.',
    `Filled at ${Math.round(filledPerSecond)} notifications/s in batches of 100, due over two days; ${rows} are accepted for one instant and released at it each round.`,
  ],
})
