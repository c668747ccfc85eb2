/**
 * Keeps accounts on record: which are blocked or broken, so that a restart does not call one before its time, and how
 * their long windows stand. A block is written when it comes; use is written ahead, some calls at a time, and never on
 * the way of a notification. Changes that come while one is written are written together.
 */

import type { AccountRecord, Clock, Store } from '../../ports.ts'
import type { Ledger } from '../../stages.ts'
import type { Pool } from '../pools/pool.ts'
import type { PooledAccount } from './account.ts'
import { useAsOf } from './write-ahead-usage.ts'

export interface AccountPersistenceOptions {
  readonly store: Pick<Store, 'accounts'>
  readonly ledger: Pick<Ledger, 'commit'>
  readonly clock: Clock
  /** An account of the pool may be called that had to wait for its record. */
  readonly onFreed: (pool: Pool) => void
  readonly onError: (what: string, error: unknown) => void
}

export interface AccountPersistence {
  /** What is known of accounts as this process begins, and from here on of what was before it. */
  begin(): Promise<readonly AccountRecord[]>
  changed(pool: Pool, account: PooledAccount): void
  /** Nothing is called any more. Resolves when everything is on record. */
  close(): Promise<void>
}

/** Until a change that the store refused is written again. */
const againMs = 500

export function createAccountPersistence(options: AccountPersistenceOptions): AccountPersistence {
  const { store, ledger, clock, onFreed, onError } = options
  const changed = new Map<PooledAccount, Pool>()
  /** All that were ever written: at the end they are written as they are then. */
  const known = new Map<PooledAccount, Pool>()
  let writing: Promise<void> | undefined
  let closed = false

  async function write(): Promise<void> {
    while (changed.size > 0) {
      const now = clock.now()
      const accounts: AccountRecord[] = [...changed].map(([account, pool]) => pool.record(account, now))
      const written = [...changed]
      changed.clear()
      try {
        await ledger.commit({ accounts })
        const freed = written.filter(([account, pool]) => pool.recorded(account))
        for (const pool of new Set(freed.map(([, pool]) => pool))) onFreed(pool)
      } catch (error) {
        onError('keep what is known of accounts', error)
        if (closed) return
        for (const [account, pool] of written) if (!changed.has(account)) changed.set(account, pool)
        await new Promise<void>((resolve) => clock.at(clock.now() + againMs, resolve))
      }
    }
    // With the look that found nothing more: whoever comes a moment later is to begin anew, and not to be overlooked.
    writing = undefined
  }

  function kick(): void {
    writing ??= write()
  }

  return {
    async begin() {
      const records = await store.accounts()
      const now = clock.now()
      const current = records.map(({ use, ...record }): AccountRecord => {
        const counted = use && useAsOf(now, use)
        return counted === undefined ? record : { ...record, use: counted }
      })
      // Else a second kill would move what was called before the first one behind it.
      const accounts = current.filter(({ use }, index) => use !== records[index]!.use)
      if (accounts.length > 0) await ledger.commit({ accounts })
      return current
    },
    changed(pool, account) {
      changed.set(account, pool)
      known.set(account, pool)
      kick()
    },
    async close() {
      closed = true
      for (const [account, pool] of known) {
        account.retire()
        changed.set(account, pool)
      }
      kick()
      await writing
    },
  }
}
