/** Accounts that several processes call, by their pools. */
import type { AccountState } from '../../ports/accounts.ts'
import type { AccountOptions, AccountPolicy } from './account.ts'
import { FleetPool, type FleetPoolOptions } from './fleet-pool.ts'

export interface FleetAccounts {
  /** Returns what makes the states of accounts, for `PoolOptions.stateOf`. Pools of one name are asked for together. */
  ofPool(name: string): (options: AccountOptions, policy: AccountPolicy) => AccountState
  /** Ends all questions, after the last news were told. */
  close(): Promise<void>
}

export function createFleetAccounts(options: FleetPoolOptions): FleetAccounts {
  const pools = new Map<string, FleetPool>()
  return {
    ofPool(name) {
      const pool = pools.get(name) ?? new FleetPool(name, options)
      pools.set(name, pool)
      return (of, policy) => pool.add(of, policy)
    },
    async close() {
      await Promise.all(Array.from(pools.values(), (pool) => pool.close()))
    },
  }
}
