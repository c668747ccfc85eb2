/**
 * The cost of metrics and lines of the log: the gateway as it ships, with its log at `info`, beside itself without
 * either, from POST to settled. A ratio of 0.97 is a cost of 3 %. Two processes of the same code differ by up to 10 %
 * for as long as they live, so one process is measured with both in turns; every five rounds it is a new one.
 * `--control 1` changes nothing between the turns: its ratios say how exact a run is.
 *
 *     npm run bench -- observability [--rounds 15] [--messages 6000] [--control 1]
 */
import { options } from './catalogue.ts'
import type { Load } from './load.ts'
import { mean, pairsHead, pairsRow } from './paired.ts'
import { start } from './process.ts'
import { inBatches, nextPhase, type Phase, type Side } from './settle.ts'

const { rounds, messages, control } = options('observability')
/** V8 compiles for some 30,000 messages. */
const warmUp = 15_000

const roundsPerProcess = 5

const load = start('load.ts')

const phase = (side: Side, total: number, more?: Partial<Load>): Promise<Phase> =>
  nextPhase(load, side, total, more)

async function open(): Promise<Side> {
  const host = start('host.ts', 'gateway.ts', JSON.stringify({ policy: 'wide', observable: true }))
  const side = { host, first: 0 }
  for (const total of [warmUp / 2, warmUp / 2]) {
    await phase(side, total)
    await phase(side, total, inBatches)
    if (control === 0) await host.ask('observe', false)
  }
  return side
}

interface Figures {
  readonly single: Phase
  readonly batch: Phase
}

/** Measures one kind of load with and without, twice each in the order ABBA, and returns the means of both. */
async function compare(
  side: Side,
  isObservedFirst: boolean,
  measure: () => Promise<Phase>,
): Promise<{ readonly without: Phase; readonly observed: Phase }> {
  const measured: Record<'without' | 'observed', Phase[]> = { without: [], observed: [] }
  for (const isFirst of [true, false, false, true]) {
    const isObserved = isFirst === isObservedFirst
    await side.host.ask('observe', control === 0 ? isObserved : true)
    measured[isObserved ? 'observed' : 'without'].push(await measure())
  }
  const meanOf = (phases: readonly Phase[]): Phase => ({
    perSecond: mean(phases.map(({ perSecond }) => perSecond)),
    latencyP50Ms: mean(phases.map(({ latencyP50Ms }) => latencyP50Ms)),
    latencyP99Ms: mean(phases.map(({ latencyP99Ms }) => latencyP99Ms)),
    cpuMicros: mean(phases.map(({ cpuMicros }) => cpuMicros)),
  })
  return { without: meanOf(measured.without), observed: meanOf(measured.observed) }
}

const without: Figures[] = []
const observed: Figures[] = []
let side: Side | undefined
for (let round = 0; round < rounds; round += 1) {
  if (round % roundsPerProcess === 0) {
    await side?.host.stop()
    side = await open()
  }
  const of = side!
  const isObservedFirst = round % 2 === 1
  const single = await compare(of, isObservedFirst, () => phase(of, messages))
  const batch = await compare(of, isObservedFirst, () => phase(of, messages * 2, inBatches))
  without.push({ single: single.without, batch: batch.without })
  observed.push({ single: single.observed, batch: batch.observed })
}
await side?.host.stop()
await load.stop()

console.log(pairsHead('without', control === 0 ? 'observed' : 'control'))
for (const [what, of, isTime] of [
  ['single requests, messages/s', (figures: Figures) => figures.single.perSecond, false],
  ['batches of 100, messages/s', (figures: Figures) => figures.batch.perSecond, false],
  ['CPU of a single message, µs', (figures: Figures) => figures.single.cpuMicros, true],
  ['CPU of a message in a batch, µs', (figures: Figures) => figures.batch.cpuMicros, true],
] as const)
  console.log(pairsRow(what, without.map(of), observed.map(of), isTime))
