/**
 * Reports changes of accounts: a log line for each, counts for the metrics, and an alert when a breaker opens or
 * closes. A failed probe is no new alert: an account that stays broken is reported once, however long it lasts.
 */

import type { AccountChange, AccountState } from '../../ports/accounts.ts'
import type { Alerts, Clock, Random } from '../../ports.ts'
import type { PoolCounts } from '../../stages.ts'
import type { Pool } from './pool.ts'

/** The events of accounts in the log. */
type AccountEvent = 'blocked' | 'opened' | 'probe_failed' | 'closed' | 'resized'

/** The log that receives the lines; a part of the gateway's log. */
interface WatchLog {
  warn(fields: { readonly event: `account.${AccountEvent}`; readonly [field: string]: unknown }): void
  info(fields: { readonly event: `account.${AccountEvent}`; readonly [field: string]: unknown }): void
}

export interface PoolAlertsOptions {
  readonly alerts: Alerts | undefined
  readonly random: Pick<Random, 'id'>
  readonly clock: Pick<Clock, 'now' | 'aheadMs'>
  readonly log: WatchLog
  /** False where another process sends the alerts of this account of the pool. @defaultValue always true */
  readonly tells?: ((pool: Pool, account: AccountState) => boolean) | undefined
}

export interface PoolAlerts {
  changed(pool: Pool, account: AccountState, change: AccountChange): void
  countsOf(pool: Pool): PoolCounts
}

type Changes = PoolCounts['changes']

export function createPoolAlerts({ alerts, random, clock, log, tells }: PoolAlertsOptions): PoolAlerts {
  const counts = new Map<Pool, { -readonly [Kind in keyof Changes]: Changes[Kind] }>()
  /** Accounts whose open breaker was alerted. */
  const open = new Set<AccountState>()

  function changesOf(pool: Pool) {
    let changes = counts.get(pool)
    if (changes === undefined) {
      changes = { blocked: 0, opened: 0, closed: 0, resized: 0 }
      counts.set(pool, changes)
    }
    return changes
  }

  const outUntil = (until: number) => ({ outUntil: new Date(until + (clock.aheadMs?.() ?? 0)) })

  function alert(
    type: 'account.opened' | 'account.closed',
    pool: Pool,
    state: AccountState,
    until?: number,
  ): void {
    if (tells?.(pool, state) === false) return
    const at = clock.now()
    const { channel, provider } = pool
    const account = state.account.id
    const more = until === undefined ? {} : { until }
    alerts?.send({ id: random.id(at), type, at, channel, provider: provider.name, account, ...more })
  }

  return {
    changed(pool, account, change) {
      const { id } = account.account
      changesOf(pool)[change.kind] += 1
      const fields = { channel: pool.channel, provider: pool.provider.name, account: id }
      switch (change.kind) {
        case 'blocked': {
          const { note } = change.retryAfter
          const noted = note === undefined ? {} : { retryAfter: note }
          log.warn({ event: 'account.blocked', ...fields, ...noted, ...outUntil(change.until) })
          break
        }
        case 'opened':
          if (open.has(account)) {
            log.info({ event: 'account.probe_failed', ...fields, ...outUntil(change.until) })
            break
          }
          open.add(account)
          log.warn({ event: 'account.opened', ...fields, ...outUntil(change.until) })
          alert('account.opened', pool, account, change.until)
          break
        case 'closed':
          open.delete(account)
          log.info({ event: 'account.closed', ...fields })
          alert('account.closed', pool, account)
          break
        case 'resized':
          log.info({ event: 'account.resized', ...fields, concurrency: change.concurrency })
      }
    },
    countsOf(pool) {
      const { channel, provider, budget } = pool
      const retryBudget = Math.max(0, Math.floor(budget.left(clock.now())))
      return { channel, provider: provider.name, changes: { ...changesOf(pool) }, retryBudget }
    },
  }
}
