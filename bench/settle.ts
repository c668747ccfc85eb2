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

export async function settle(
  load: Peer,
  host: Peer,
  given: Omit<Load, 'port' | 'connections' | 'recipients'>,
): Promise<Phase> {
  const { total, first } = given
  const port = await host.ask<number>('port')
  const before = await host.ask<Cost>('cost')
  const loaded = await load.ask<Loaded>('run', { port, connections: 64, recipients: 10_000, ...given })
  const refused = Object.keys(loaded.statuses).filter((status) => status !== '202')
  if (refused.length > 0) throw new Error(`not all accepted: ${JSON.stringify(loaded.statuses)}`)
  const until = performance.now() + 60_000
  let cost = await host.ask<Cost>('cost')
  while (cost.settled < total && performance.now() < until) {
    await sleep(20)
    cost = await host.ask<Cost>('cost')
  }
  const { numbers, at, twice } = await host.ask<Settled>('take')
  if (numbers.length !== total || twice > 0)
    throw new Error(`of ${total} sent ${numbers.length} are settled, ${twice} twice`)
  const latencies = at.map((instant, index) => instant - loaded.sent[numbers[index]! - first]!).sort()
  const took = at.reduce((a, b) => Math.max(a, b)) - loaded.sent[0]!
  return {
    perSecond: (total / took) * 1_000,
    latencyP50Ms: percentile(latencies, 0.5),
    latencyP99Ms: percentile(latencies, 0.99),
    cpuMicros: (cost.cpuMicros - before.cpuMicros) / total,
  }
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
