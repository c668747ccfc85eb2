/** Metrics of provider accounts: by pool for everybody, by account where the operator wants them. */
import type { AccountStatus, PoolCounts, PoolLoad, PoolReport } from '../stages.ts'
import type { Meter } from './meter.ts'

export interface PoolMetricsOptions {
  readonly pools: () => readonly PoolReport[]
  readonly poolCounts?: (() => readonly (PoolCounts & PoolLoad)[]) | undefined
}

const accountStatuses: readonly AccountStatus[] = ['healthy', 'blocked', 'open', 'half_open', 'held']
const poolLabels = ['channel', 'provider']

export function measurePools(meter: Meter, { pools, poolCounts = () => [] }: PoolMetricsOptions): void {
  meter.gauge(
    'sluice_accounts',
    'Provider accounts by status: blocked by a 429, open or half_open by their breaker, held by an operator.',
    [...poolLabels, 'status'],
    (set) => {
      for (const { channel, provider, accounts } of pools()) {
        const counts = new Map<string, number>(accountStatuses.map((status) => [status, 0]))
        for (const { status } of accounts) counts.set(status, (counts.get(status) ?? 0) + 1)
        for (const [status, count] of counts) set([channel, provider, status], count)
      }
    },
  )
  meter.counter(
    'sluice_account_changes_total',
    'Accounts that were blocked, whose breaker opened or closed, or whose calls at once changed.',
    [...poolLabels, 'change'],
    (set) => {
      for (const { channel, provider, changes } of poolCounts())
        for (const [change, count] of Object.entries(changes)) set([channel, provider, change], count)
    },
  )
  const eachPool = (
    name: string,
    help: string,
    read: (counts: PoolCounts & PoolLoad) => number | undefined,
  ): void =>
    meter.gauge(name, help, poolLabels, (set) => {
      for (const counts of poolCounts()) {
        const value = read(counts)
        if (value !== undefined) set([counts.channel, counts.provider], value)
      }
    })
  eachPool('sluice_retry_budget', 'Retries that a pool may make now.', ({ retryBudget }) => retryBudget)
  eachPool(
    'sluice_pool_rate_per_second',
    'Calls per second that the configured rates of the accounts allow; absent where one is unlimited.',
    ({ ratePerSecond }) => ratePerSecond,
  )
  eachPool(
    'sluice_pool_learned_rate_ratio',
    'Share of the configured rate that a pool uses after its provider refused calls; 1 is all of it.',
    ({ learnedRatio }) => learnedRatio,
  )
  eachPool(
    'sluice_pool_admitted_per_second',
    'Calls per second that a pool admits now; less than its rate while accounts are out.',
    ({ admittedPerSecond }) => admittedPerSecond,
  )
  eachPool('sluice_pool_in_flight', 'Calls to the provider that are under way.', ({ inFlight }) => inFlight)
}
