/** Pools and accounts in answers: every instant in wall time. */
import type { AccountDetails, AccountPast, PoolDetails } from '../stages.ts'
import { isoOrNull } from './answer.ts'

export function poolAnswer({ channel, provider, rate, accounts, ...pool }: PoolDetails, aheadMs: number) {
  return {
    channel,
    provider,
    rate,
    ...pool,
    accounts: accounts.map((account) => accountAnswer(account, aheadMs)),
  }
}

export function accountAnswer(account: AccountDetails, aheadMs: number) {
  const iso = (instant: number | null): string | null =>
    isoOrNull(instant === null ? null : instant + aheadMs)
  const { id, rate, used, status, blockedUntil, outSince, outUntil, outBecause, windows, ...rest } = account
  return {
    id,
    rate,
    used,
    status,
    blockedUntil: iso(blockedUntil),
    outSince: iso(outSince),
    outUntil: iso(outUntil),
    outBecause,
    ...rest,
    windows: windows.map((window) => ({ ...window, freesAt: iso(window.freesAt) })),
  }
}

export function pastAnswer({ changes, minutes }: AccountPast, aheadMs: number) {
  const iso = (instant: number): string => isoOrNull(instant + aheadMs)!
  return {
    changes: changes.map(({ at, until, ...change }) => ({
      at: iso(at),
      ...change,
      ...(until === undefined ? {} : { until: iso(until) }),
    })),
    minutes: minutes.map(({ at, ...counts }) => ({ at: iso(at), ...counts })),
  }
}
