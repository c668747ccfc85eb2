/**
 * Converts between wall time, which clients read and write, and the process's own time, which is stored (Clock
 * in ports.ts); the two differ by the steps of the wall clock. The difference is added to answers, and
 * subtracted from requests. Nearly always it is 0, and then nothing is copied.
 */

import type { Decision, Notification, TimelineEvent } from '../model.ts'
import type { Clock } from '../ports.ts'
import type { PoolReport } from '../stages.ts'

/** Returns how far the wall clock is ahead of the process's own time, ms. */
export const aheadOf = (clock: Pick<Clock, 'aheadMs'>): number => clock.aheadMs?.() ?? 0

const later = (instant: number | null, byMs: number): number | null =>
  instant === null ? null : instant + byMs

export function decisionInWallTime(decision: Decision, aheadMs: number): Decision {
  if (aheadMs === 0) return decision
  const rules = decision.rules.map((rule) => ({ ...rule, freesAt: later(rule.freesAt, aheadMs) }))
  return { ...decision, rules, ...(decision.at === undefined ? {} : { at: decision.at + aheadMs }) }
}

export function eventInWallTime(event: TimelineEvent, aheadMs: number): TimelineEvent {
  return aheadMs === 0 ? event : { ...event, at: event.at + aheadMs }
}

/** Converts every instant of a notification that an answer shows. */
export function inWallTime(notification: Notification, aheadMs: number): Notification {
  if (aheadMs === 0) return notification
  const { dueAt, createdAt, expiresAt, decision, timeline } = notification
  return {
    ...notification,
    dueAt: dueAt + aheadMs,
    createdAt: createdAt + aheadMs,
    ...(expiresAt === undefined ? {} : { expiresAt: expiresAt + aheadMs }),
    decision: decisionInWallTime(decision, aheadMs),
    timeline: timeline.map((event) => eventInWallTime(event, aheadMs)),
  }
}

export function usageInWallTime<Row extends { readonly freesAt: number | null }>(
  rows: readonly Row[],
  aheadMs: number,
): readonly Row[] {
  return aheadMs === 0 ? rows : rows.map((row) => ({ ...row, freesAt: later(row.freesAt, aheadMs) }))
}

export function poolsInWallTime(pools: readonly PoolReport[], aheadMs: number): readonly PoolReport[] {
  if (aheadMs === 0) return pools
  return pools.map((pool) => ({
    ...pool,
    accounts: pool.accounts.map((account) => ({
      ...account,
      blockedUntil: later(account.blockedUntil, aheadMs),
      outUntil: later(account.outUntil, aheadMs),
    })),
  }))
}
