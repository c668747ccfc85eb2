/**
 * Fairness: 99 tenants at half of their share of a provider account, without and with a hundredth one that sends at a
 * hundred times its share. With the limits that ship it stands in its own line, and how long the 99 wait between
 * accepted and delivered must hardly change. Without any limits it keeps the account itself busy without a pause: then
 * the account's calls keep a distance (delivery/pools/pacing.ts), and tenants take turns at its places. Every round has four
 * fresh processes, one after the other.
 *
 *     npm run bench -- fairness [--rounds 2] [--seconds 6]
 */

import { options } from './catalogue.ts'
import type { Crowd, Waits } from './contestants/crowd.ts'
import { type Comparison, percentile, save } from './figures.ts'
import { start } from './process.ts'

const { rounds, seconds } = options('fairness')

async function measure(crowd: Omit<Crowd, 'seconds'>): Promise<Waits> {
  const host = start('host.ts', 'crowd.ts', JSON.stringify({ ...crowd, seconds } satisfies Crowd))
  try {
    return await host.ask<Waits>('run')
  } finally {
    await host.stop()
  }
}

const found = {
  alone: [] as Waits[],
  beside: [] as Waits[],
  aloneFree: [] as Waits[],
  besideFree: [] as Waits[],
}
for (let round = 0; round < rounds; round += 1) {
  found.alone.push(await measure({ limited: true, noisy: false }))
  found.beside.push(await measure({ limited: true, noisy: true }))
  found.aloneFree.push(await measure({ limited: false, noisy: false }))
  found.besideFree.push(await measure({ limited: false, noisy: true }))
}

const p99 = (of: readonly Waits[]): number[] => of.map(({ ms }) => percentile(ms, 0.99))
const median = (of: readonly Waits[]): number[] => of.map(({ ms }) => percentile(ms, 0.5))
const name = 'without the noisy one'

function delivered(what: string, of: readonly Waits[]): Comparison {
  const ours = of.map(({ heard, asked }) => (100 * heard) / asked)
  return { what: `of the others' notifications delivered${what}`, unit: '%', ours, goal: { min: 100 } }
}

const { alone, beside, aloneFree, besideFree } = found
const last = beside.at(-1)!
save({
  name: 'fairness',
  title: 'One tenant at 100× its share beside 99 normal ones.',
  rounds,
  comparisons: [
    {
      what: "the others' p99 accepted → delivered",
      unit: 'ms',
      ours: p99(beside),
      against: { name, figures: p99(alone) },
      goal: { max: 1.5 },
    },
    {
      what: "the others' median",
      unit: 'ms',
      ours: median(beside),
      against: { name, figures: median(alone) },
    },
    delivered('', beside),
    {
      what: "the others' p99 without any limits",
      unit: 'ms',
      ours: p99(besideFree),
      against: { name, figures: p99(aloneFree) },
    },
    delivered(' without any limits', besideFree),
    {
      what: 'the fewest that one of them got through without any limits',
      unit: 'notifications',
      ours: besideFree.map(({ least }) => least),
      against: { name: 'the most', figures: besideFree.map(({ most }) => most) },
    },
  ],
  notes: [
    `${seconds} s a run: 99 tenants at 1/s and one at 200/s before one account of 200/s, sandbox provider, store on disk. In the last run with limits the noisy one asked ${last.noisyAsked} times and had ${last.noisyDelivered} delivered.`,
    'Without limits the account has no place to spare: a notification waits for its tenant’s turn at the next place that comes free. The first two seconds are not counted: in them the account’s first window is filled by whoever comes.',
  ],
})
