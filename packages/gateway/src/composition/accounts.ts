/**
 * Composes the accounts of the pools where several processes call them: their state in Redis, and the process that judges a
 * pool, which alone writes its accounts to the record and alerts. A process that is alone has neither.
 */
import type { PoolConfig } from '../config/config.ts'
import { createFleetJudges } from '../delivery/accounts/fleet-judges.ts'
import { FleetLongUse } from '../delivery/accounts/fleet-long-use.ts'
import type { Pool, PoolOptions } from '../delivery/pools/pool.ts'
import type { AccountState } from '../ports/accounts.ts'
import type { Members } from '../ports/fleet.ts'
import type { Clock, Store, UseRecord } from '../ports.ts'
import type { Fleet } from './fleet-parts.ts'

export interface SharedAccounts {
  /** True while this process judges the account of the pool. */
  judges(pool: Pick<Pool, 'channel' | 'provider'>, account: Pick<AccountState, 'account'>): boolean
  /** Makes the states of the accounts of a pool of the configuration. */
  stateOf(pool: PoolConfig): NonNullable<PoolOptions['stateOf']>
  /** Tells the last calls of this process. */
  close(): Promise<void>
}

export interface SharedAccountsOptions {
  readonly fleet: Fleet
  readonly pools: readonly PoolConfig[]
  readonly members: Pick<Members, 'holds'>
  readonly store: Pick<Store, 'accounts'>
  readonly clock: Pick<Clock, 'now' | 'at'>
  /** Each window is kept longer by this, ms. */
  readonly marginMs: number
}

/**
 * Pools of one channel and provider have one judge and one state, whatever their number and order: processes with different
 * configurations may have the same account in different ones.
 */
const judgedAs = (channel: string, provider: string): string => `${channel}/${provider}`

export function createSharedAccounts({
  fleet,
  pools,
  members,
  store,
  clock,
  marginMs,
}: SharedAccountsOptions): SharedAccounts {
  const judged = Map.groupBy(pools, ({ channel, provider }) => judgedAs(channel, provider))
  const judges = createFleetJudges({
    members,
    peers: fleet.state.peers,
    clock,
    accounts: new Map(
      Array.from(judged, ([name, alike]) => [name, alike.flatMap((pool) => pool.accounts.map(judgedOf))]),
    ),
  })
  function judgedOf({ account: { id }, rate, marginMs: own = marginMs }: PoolConfig['accounts'][number]) {
    return {
      id,
      isLong: rate.windows.some(({ windowMs }) => FleetLongUse.isLong(windowMs + own, fleet.state.slotMs)),
    }
  }
  const { keeper } = fleet.state
  /** Without its server only the process that keeps the limits hears what the accounts answered. */
  const isJudge = (pool: string, account?: string): boolean => {
    const isOurs = judges.judges(pool, account)
    return keeper?.isAway() === true ? keeper.keeper() === 'this process' : isOurs
  }
  const accounts = fleet.state.accounts({
    isJudge,
    callMs: Math.max(...pools.map(({ timeoutMs }) => timeoutMs)),
    async readUse(pool) {
      const records = await store.accounts()
      return new Map(
        records.flatMap(({ channel, provider, account, use }): [string, UseRecord][] =>
          use === undefined || judgedAs(channel, provider) !== pool ? [] : [[account, use]],
        ),
      )
    },
  })
  return {
    judges: ({ channel, provider }, { account }) => isJudge(judgedAs(channel, provider.name), account.id),
    stateOf: ({ channel, provider }) => accounts.ofPool(judgedAs(channel, provider)),
    async close() {
      judges.close()
      await accounts.close()
    },
  }
}
