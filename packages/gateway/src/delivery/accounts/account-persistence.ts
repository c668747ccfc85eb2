/**
 * Keeps accounts on record: blocks and open breakers, so that a restart does not call an account too early, and the
 * usage of long windows. A block is handed to the store in the tick in which it comes, so that it is on record before
 * any dead letter that it causes. Usage is written ahead, some calls at a time, and never on the path of a
 * notification. Of one account one write is under way at a time; changes that come meanwhile are written together.
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
   * False where another process writes this account of the pool: of all processes of a fleet the one that judges it, for
   * each record replaces the one before. @defaultValue always true
   */
  readonly writes?: ((pool: Pool, account: AccountState) => boolean) | undefined
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
  const { store, ledger, clock, onError, writes: isWriter } = options
  /** Accounts that are to be written. */
  const changed = new Map<AccountState, Pool>()
  /** All accounts that were ever written: at close their final state is written. */
  const known = new Map<AccountState, Pool>()
  /** Accounts with a write under way: the store need not keep the order of two records of the same account. */
  const writing = new Set<AccountState>()
  const writes = new Set<Promise<void>>()
  /** The number of refused writes that wait; nothing is written meanwhile. */
  let refused = 0
  let closed = false

  async function write(batch: readonly (readonly [AccountState, Pool])[]): Promise<void> {
    const now = clock.now()
    try {
      await ledger.commit({ accounts: batch.map(([account, pool]) => pool.record(account, now)) })
      for (const [account] of batch) account.recorded()
    } catch (error) {
      onError('keep what is known of accounts', error)
      if (closed) {
        changed.clear()
        return
      }
      for (const [account, pool] of batch) if (!changed.has(account)) changed.set(account, pool)
      refused += 1
      await new Promise<void>((resolve) => clock.at(clock.now() + againMs, resolve))
      refused -= 1
    }
  }

  function kick(): void {
    if (refused > 0) return
    const batch = [...changed].filter(([account]) => !writing.has(account))
    if (batch.length === 0) return
    for (const [account] of batch) {
      changed.delete(account)
      writing.add(account)
    }
    const running = write(batch).then(() => {
      writes.delete(running)
      for (const [account] of batch) writing.delete(account)
      kick()
    })
    writes.add(running)
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
      if (accounts.length > 0 && isWriter === undefined) await ledger.commit({ accounts })
      return current
    },
    changed(pool, account) {
      if (isWriter?.(pool, account) === false) return
      changed.set(account, pool)
      known.set(account, pool)
      kick()
    },
    async close() {
      closed = true
      for (const [account, pool] of known) {
        account.retire()
        if (isWriter?.(pool, account) !== false) changed.set(account, pool)
      }
      kick()
      while (writes.size > 0) await Promise.all(writes)
    },
  }
}
