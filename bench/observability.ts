/**
 * The cost of metrics and lines of the log: the gateway as it ships, with its log at `info`, beside the same gateway
 * without either, in pairs from POST to settled. All processes are warm, each round measures one right after the
 * other, and the order changes from round to round. A ratio of 0.97 is a cost of 3 %. All name their requests and
 * probe the event loop. A third process, without either too, is the control: its ratio says how exact the run is.
 * CPU on a busy machine needs many short rounds.
 *
 *     npm run bench -- observability [--rounds 15] [--messages 6000]
 */
import { options } from './catalogue.ts'
import type { Load } from './load.ts'
import { pairsHead, pairsRow } from './paired.ts'
import { type Peer, start } from './process.ts'
import { type Phase, settle } from './settle.ts'

const { rounds, messages } = options('observability')
const path = '/api/v1/notifications'
const inBatches = { batch: 100, path: `${path}/batch` }
/** V8 compiles for some 30,000 messages. */
const warmUp = 15_000

interface Side {
  readonly host: Peer
  /** The number of the next message. */
  first: number
}

const load = start('load.ts')

function phase(side: Side, total: number, more: Partial<Load> = {}): Promise<Phase> {
  const { host, first } = side
  side.first += total
  return settle(load, host, { path, total, first, ...more })
}

async function open(observed: boolean): Promise<Side> {
  const side = {
    host: start('host.ts', 'gateway.ts', JSON.stringify({ policy: 'wide', observed })),
    first: 0,
  }
  await phase(side, warmUp)
  await phase(side, warmUp, inBatches)
  return side
}

interface Figures {
  readonly single: Phase
  readonly batch: Phase
}

async function measure(side: Side): Promise<Figures> {
  return { single: await phase(side, messages), batch: await phase(side, messages * 2, inBatches) }
}

const sides = { without: await open(false), control: await open(false), observed: await open(true) }
type Name = keyof typeof sides
const orders: readonly (readonly Name[])[] = [
  ['without', 'control', 'observed'],
  ['observed', 'without', 'control'],
  ['control', 'observed', 'without'],
  ['observed', 'control', 'without'],
  ['control', 'without', 'observed'],
  ['without', 'observed', 'control'],
]
const measured: Record<Name, Figures[]> = { without: [], control: [], observed: [] }
for (let round = 0; round < rounds; round += 1)
  for (const name of orders[round % orders.length]!) measured[name].push(await measure(sides[name]))
await Promise.all([load, ...Object.values(sides).map(({ host }) => host)].map((peer) => peer.stop()))

const figures = [
  ['single requests, messages/s', (of: Figures) => of.single.perSecond, false],
  ['batches of 100, messages/s', (of: Figures) => of.batch.perSecond, false],
  ['CPU of a single message, µs', (of: Figures) => of.single.cpuMicros, true],
  ['CPU of a message in a batch, µs', (of: Figures) => of.batch.cpuMicros, true],
] as const
for (const other of ['control', 'observed'] as const) {
  console.log(pairsHead('without', other))
  for (const [what, of, isTime] of figures)
    console.log(pairsRow(what, measured.without.map(of), measured[other].map(of), isTime))
}
