/**
 * Keeps on record which accounts are blocked or broken, so that a restart does not call one before its time. Written
 * when it changes and never on the way of a notification; changes that come while one is written are written together.
 */
import type { Ledger } from '../doors.ts'
import type { AccountRecord, Clock } from '../ports.ts'
import type { PooledAccount } from './account.ts'
import type { Pool } from './pool.ts'

export interface AccountKeeperOptions {
  readonly ledger: Pick<Ledger, 'commit'>
  readonly clock: Clock
  readonly onTrouble: (what: string, error: unknown) => void
}

export interface AccountKeeper {
  changed(pool: Pool, account: PooledAccount): void
  /** Resolves when everything is on record. */
  close(): Promise<void>
}

/** Until a change that the store refused is written again. */
const againMs = 500

export function createAccountKeeper({ ledger, clock, onTrouble }: AccountKeeperOptions): AccountKeeper {
  const changed = new Map<PooledAccount, Pool>()
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
      } catch (error) {
        onTrouble('keep what is known of accounts', error)
        if (closed) return
        for (const [account, pool] of written) if (!changed.has(account)) changed.set(account, pool)
        await new Promise<void>((resolve) => clock.at(clock.now() + againMs, resolve))
      }
    }
  }

  return {
    changed(pool, account) {
      changed.set(account, pool)
      writing ??= write().finally(() => {
        writing = undefined
      })
    },
    async close() {
      closed = true
      await writing
    },
  }
}
