/**
 * The gateway as it is in this checkout beside the gateway of another commit, in pairs: both processes are warm, each
 * round measures one right after the other, and the order changes from round to round. The ratio of each pair is
 * oriented so that more than 1 is better now; the table shows its geometric mean and the lower bound of its 95 %
 * confidence interval (one-sided, Student's t over the logarithms). Processes are started afresh every five rounds,
 * because two runs of the same code differ by some percent.
 *
 *     npm run bench -- before-after --base <commit> [--rounds 15] [--messages 6000]
 */
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { checkOut } from '../scripts/surface/check-out.ts'
import { options } from './catalogue.ts'
import type { Load } from './load.ts'
import { mean, pairsHead, pairsRow } from './paired.ts'
import { start } from './process.ts'
import { inBatches, nextPhase, type Phase, type Side } from './settle.ts'

const { base, rounds, messages } = options('before-after')
const root = join(import.meta.dirname, '..')
const roundsPerProcess = 5

type Figure = 'singles' | 'batches' | 'halfP99' | 'cpuSingle' | 'cpuBatch'
type Figures = Record<Figure, number>

const meanings: Readonly<Record<Figure, { readonly what: string; readonly lessIsBetter?: true }>> = {
  singles: { what: 'single requests, settled, messages/s' },
  batches: { what: 'batches of 100, settled, messages/s' },
  halfP99: { what: 'sent → settled at a steady rate, p99, ms', lessIsBetter: true },
  cpuSingle: { what: 'CPU of a single message, µs', lessIsBetter: true },
  cpuBatch: { what: 'CPU of a message in a batch, µs', lessIsBetter: true },
}

const load = start('load.ts')

const phase = (side: Side, total: number, more?: Partial<Load>): Promise<Phase> =>
  nextPhase(load, side, total, more)

async function open(folder: string): Promise<Side> {
  const host = start(join(folder, 'bench/host.ts'), 'gateway.ts', JSON.stringify({ policy: 'wide' }))
  const side = { host, first: 0 }
  // V8 compiles for some 30,000 messages.
  await phase(side, 15_000)
  await phase(side, 15_000, inBatches)
  return side
}

async function measure(side: Side, rate: number): Promise<Figures> {
  const single = await phase(side, messages)
  const steady = await phase(side, Math.ceil(messages / 2), { rate })
  const batch = await phase(side, messages * 2, inBatches)
  return {
    singles: single.perSecond,
    batches: batch.perSecond,
    halfP99: steady.latencyP99Ms,
    cpuSingle: single.cpuMicros,
    cpuBatch: batch.cpuMicros,
  }
}

const pairs: { readonly before: Figures; readonly now: Figures }[] = []
const folder = checkOut(base)
try {
  let sides: { readonly before: Side; readonly now: Side } | undefined
  const close = () => Promise.all(Object.values(sides ?? {}).map(({ host }: Side) => host.stop()))
  for (let round = 0; round < rounds; round += 1) {
    if (round % roundsPerProcess === 0) {
      await close()
      sides = { before: await open(folder), now: await open(root) }
    }
    const { before, now } = sides!
    // Half of what this machine manages: the same rate for both.
    const rate = pairs.length === 0 ? 1_000 : mean(pairs.map((pair) => pair.before.singles)) / 2
    if (round % 2 === 0) pairs.push({ before: await measure(before, rate), now: await measure(now, rate) })
    else {
      const later = await measure(now, rate)
      pairs.push({ before: await measure(before, rate), now: later })
    }
    const last = pairs.at(-1)!
    console.log(
      `  ${String(round + 1).padStart(2)}: singles ${last.before.singles.toFixed(0)} → ${last.now.singles.toFixed(0)}, batches ${last.before.batches.toFixed(0)} → ${last.now.batches.toFixed(0)}, CPU ${last.before.cpuSingle.toFixed(0)} → ${last.now.cpuSingle.toFixed(0)} µs`,
    )
  }
  await close()
} finally {
  await load.stop()
  rmSync(folder, { recursive: true, force: true })
}

console.log(pairsHead('before', 'now'))
for (const [name, { what, lessIsBetter = false }] of Object.entries(meanings) as [
  Figure,
  (typeof meanings)[Figure],
][]) {
  const before = pairs.map((pair) => pair.before[name])
  const now = pairs.map((pair) => pair.now[name])
  console.log(pairsRow(what, before, now, lessIsBetter))
}
