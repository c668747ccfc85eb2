/**
 * Sends messages to a host and waits until all of them are settled: what the benchmarks from POST to settled measure.
 * Each must be accepted, and settled exactly once.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { percentile } from './figures.ts'
import type { Cost, Settled } from './host.ts'
import type { Load, Loaded } from './load.ts'
import type { Peer } from './process.ts'

export interface Phase {
  readonly perSecond: number
  readonly latencyP50Ms: number
  readonly latencyP99Ms: number
  readonly cpuMicros: number
}

/** After this time without a settlement the rest is taken for lost, ms. */
const stillMs = 30_000

/** Loads hosts that share the work, and waits until it is settled. `run` sends it. */
export async function settleAt(
  hosts: readonly Peer[],
  { total, first }: Pick<Load, 'total' | 'first'>,
  run: () => Promise<Loaded>,
): Promise<Phase> {
  const costs = () => Promise.all(hosts.map((host) => host.ask<Cost>('cost')))
  const sum = (of: readonly Cost[], key: 'cpuMicros' | 'settled'): number =>
    of.reduce((all, cost) => all + cost[key], 0)
  const before = await costs()
  const loaded = await run()
  const refused = Object.keys(loaded.statuses).filter((status) => status !== '202')
  if (refused.length > 0) throw new Error(`not all accepted: ${JSON.stringify(loaded.statuses)}`)
  let cost = await costs()
  for (let [most, movedAt] = [-1, 0]; sum(cost, 'settled') < total; cost = await costs()) {
    if (sum(cost, 'settled') > most) [most, movedAt] = [sum(cost, 'settled'), performance.now()]
    else if (performance.now() - movedAt > stillMs) break
    await sleep(20)
  }
  const taken = await Promise.all(hosts.map((host) => host.ask<Settled>('take')))
  const numbers = taken.flatMap((each) => [...each.numbers])
  const at = Float64Array.from(taken.flatMap((each) => [...each.at]))
  const twice = taken.reduce((all, each) => all + each.twice, numbers.length - new Set(numbers).size)
  if (numbers.length !== total || twice > 0)
    throw new Error(`of ${total} sent ${numbers.length} are settled, ${twice} twice`)
  const latencies = at.map((instant, index) => instant - loaded.sent[numbers[index]! - first]!).sort()
  const took = at.reduce((a, b) => Math.max(a, b)) - loaded.sent[0]!
  return {
    perSecond: (total / took) * 1_000,
    latencyP50Ms: percentile(latencies, 0.5),
    latencyP99Ms: percentile(latencies, 0.99),
    cpuMicros: (sum(cost, 'cpuMicros') - sum(before, 'cpuMicros')) / total,
  }
}

/** Loads hosts over HTTP: several share the connections. */
export async function settle(
  load: Peer,
  hosts: Peer | readonly Peer[],
  given: Omit<Load, 'port' | 'connections' | 'recipients'>,
): Promise<Phase> {
  const all = [hosts].flat()
  const port = await Promise.all(all.map((host) => host.ask<number>('port')))
  return settleAt(all, given, () =>
    load.ask<Loaded>('run', { port, connections: 64, recipients: 10_000, ...given }),
  )
}

const path = '/api/v1/notifications'

/** The load of a phase in batches of 100. */
export const inBatches: Partial<Load> = { batch: 100, path: `${path}/batch` }

/** A host that is measured again and again. */
export interface Side {
  readonly host: Peer
  /** The number of the next message. */
  first: number
}

/** Sends the next messages of a side, singly unless `more` says otherwise. */
export function nextPhase(load: Peer, side: Side, total: number, more: Partial<Load> = {}): Promise<Phase> {
  const { host, first } = side
  side.first += total
  return settle(load, host, { path, total, first, ...more })
}
