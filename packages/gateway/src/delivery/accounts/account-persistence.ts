/**
 * Keeps accounts on record: blocks and open breakers, so that a restart does not call an account too early, and the
 * usage of long windows. A block is written when it comes. Usage is written ahead, some calls at a time, and never on
 * the path of a notification. Changes that come during a write are written together.
 */

import type { AccountState } from '../../ports/accounts.ts'
import type { AccountRecord, Clock, Store } from '../../ports.ts'
import type { Ledger } from '../../stages.ts'
import type { Pool } from '../pools/pool.ts'
import { useAsOf } from './write-ahead-usage.ts'

export interface AccountPersistenceOptions {
  readonly store: Pick<Store, 'accounts'>
  readonly ledger: Pick<Ledger, 'commit'>
  readonly clock: Clock
  readonly onError: (what: string, error: unknown) => void
  /**
   * False where another process writes the accounts of this pool: of all processes of a fleet the one that judges it, for
   * each record replaces the one before. @defaultValue always true
   */
  readonly writes?: ((pool: Pool) => boolean) | undefined
}

export interface AccountPersistence {
  /**
   * Reads the accounts on record. Usage written ahead by an earlier process is counted as made now, here and on record; in
   * a fleet here only, for the process that wrote it may go on with it.
   */
  begin(): Promise<readonly AccountRecord[]>
  changed(pool: Pool, account: AccountState): void
  /** Ends all use of accounts. Resolves when everything is on record. */
  close(): Promise<void>
}

/** Retry delay after the store refused a write, ms. */
const againMs = 500

export function createAccountPersistence(options: AccountPersistenceOptions): AccountPersistence {
  const { store, ledger, clock, onError, writes } = options
  const changed = new Map<AccountState, Pool>()
  /** All accounts that were ever written: at close their final state is written. */
  const known = new Map<AccountState, Pool>()
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
        for (const [account] of written) account.recorded()
      } catch (error) {
        onError('keep what is known of accounts', error)
        if (closed) return
        for (const [account, pool] of written) if (!changed.has(account)) changed.set(account, pool)
        await new Promise<void>((resolve) => clock.at(clock.now() + againMs, resolve))
      }
    }
    // Set in the same tick as the last check: a change that comes a moment later starts a new write.
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
      // Otherwise a second kill would move calls of an earlier process behind the first kill.
      const accounts = current.filter(({ use }, index) => use !== records[index]!.use)
      if (accounts.length > 0 && writes === undefined) await ledger.commit({ accounts })
      return current
    },
    changed(pool, account) {
      if (writes?.(pool) === false) return
      changed.set(account, pool)
      known.set(account, pool)
      kick()
    },
    async close() {
      closed = true
      for (const [account, pool] of known) {
        account.retire()
        if (writes?.(pool) !== false) changed.set(account, pool)
      }
      kick()
      await writing
    },
  }
}
