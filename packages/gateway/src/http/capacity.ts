/** Estimates how fast the accounts of a channel carry what is due, from their rates and those that are out. Pure. */
import { parseWindows } from '@sluice/limits'
import type { Capacity } from '../backlog-cell.ts'
import type { Channel } from '../model.ts'
import type { AccountReport, PoolReport } from '../stages.ts'

/** Undefined where no pool serves the channel, or its accounts are out without an end. */
export function capacityOf(
  pools: readonly PoolReport[],
  channel: Channel,
  now: number,
): Capacity | undefined {
  const accounts = pools.filter((pool) => pool.channel === channel).flatMap((pool) => pool.accounts)
  const healthy = accounts.filter(({ status }) => status === 'healthy')
  const perSecond = (of: readonly AccountReport[]): number =>
    of.reduce((total, account) => total + rateOf(account), 0)
  if (healthy.length > 0) return { from: now, perSecond: perSecond(healthy) }
  const back = accounts.flatMap(({ outUntil }) => (outUntil === null ? [] : [outUntil]))
  if (back.length === 0) return undefined
  const from = Math.min(...back)
  return { from, perSecond: perSecond(accounts.filter(({ outUntil }) => outUntil === from)) }
}

/** Calls per second of one account: its tightest window, or the lower rate that its provider was seen to allow. */
function rateOf({ rate, learnedRate }: AccountReport): number {
  const written =
    rate === 'unlimited'
      ? Number.POSITIVE_INFINITY
      : Math.min(...parseWindows(rate).map(({ max, windowMs }) => (max / windowMs) * 1_000))
  return learnedRate === null ? written : Math.min(written, learnedRate)
}
