/**
 * The cost of metrics and lines of the log: the gateway as it ships, with its log at `info`, beside the same gateway
 * without either, in pairs from POST to settled. Both processes are warm, each round measures one right after the
 * other, and the order changes from round to round. A ratio of 0.97 is a cost of 3 %. Both name their requests and
 * probe the event loop.
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

const without = await open(false)
const observed = await open(true)
const pairs: { readonly without: Figures; readonly observed: Figures }[] = []
for (let round = 0; round < rounds; round += 1) {
  if (round % 2 === 0) pairs.push({ without: await measure(without), observed: await measure(observed) })
  else {
    const later = await measure(observed)
    pairs.push({ without: await measure(without), observed: later })
  }
}
await Promise.all([load, without.host, observed.host].map((peer) => peer.stop()))

console.log(pairsHead('without', 'observed'))
for (const [what, of, isTime] of [
  ['single requests, messages/s', (figures: Figures) => figures.single.perSecond, false],
  ['batches of 100, messages/s', (figures: Figures) => figures.batch.perSecond, false],
  ['CPU of a single message, µs', (figures: Figures) => figures.single.cpuMicros, true],
  ['CPU of a message in a batch, µs', (figures: Figures) => figures.batch.cpuMicros, true],
] as const) {
  const before = pairs.map((pair) => of(pair.without))
  const now = pairs.map((pair) => of(pair.observed))
  console.log(pairsRow(what, before, now, isTime))
}
