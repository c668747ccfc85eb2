/**
 * Counts the results of a scenario's accounts: refusals, the fullest windows, deliveries while some accounts failed, dead
 * letters and automatic redrives. Refusals and windows are counted by the fake provider, the rest by the record.
 */

import type { Clock } from '../ports.ts'
import type { Happening } from '../stages.ts'
import type { Scenario } from './scenario.ts'

export interface AccountFigures {
  readonly count: number
  /** Accounts that were answered 429 at least once. */
  readonly refused: number
  /** Calls that were answered 429. */
  readonly refusals: number
  /** The window of an account with the most calls for its maximum; null where all are unlimited. */
  readonly fullestWindow: { readonly calls: number; readonly max: number; readonly window: string } | null
  /** Deliveries before the first phase, during all phases, and after the last; null where that took no time. */
  readonly deliveredPerSecond: {
    readonly before: number | null
    readonly during: number | null
    readonly after: number | null
  }
  /** Dead letters by cause. */
  readonly deadLetters: Readonly<Record<string, number>>
  /** Automatic redrives. */
  readonly returned: number
}

/** The part of the fake provider that is read. */
interface FakeProvider {
  accounts(): readonly string[]
  counters(account?: string): { readonly fates: { readonly rate_limit: number } }
}

export type AccountOracleOptions = Pick<Scenario, 'start' | 'durationMs' | 'phases' | 'pools'> & {
  readonly clock: Pick<Clock, 'now'>
}

export interface AccountOracle {
  /** Hears of a call to an account, at its instant. */
  called(account: string): void
  observe(happening: Happening): void
  figures(side: FakeProvider): AccountFigures
}

export function createAccountOracle(options: AccountOracleOptions): AccountOracle {
  const { clock, start, durationMs, phases, pools = [] } = options
  const fromMs = Math.min(durationMs, ...phases.map((phase) => phase.fromMs))
  const toMs = Math.max(fromMs, ...phases.map((phase) => phase.toMs))
  const delivered = { before: 0, during: 0, after: 0 }
  const deadLetters: Record<string, number> = {}
  const dead = new Set<string>()
  const calls = new Map<string, number[]>()
  let returned = 0

  const perSecond = (count: number, ms: number): number | null =>
    ms === 0 ? null : Math.round((count / ms) * 10_000) / 10

  /** Counts each rolling window that begins with a call, literally. */
  function fullestWindow(): AccountFigures['fullestWindow'] {
    let fullest: AccountFigures['fullestWindow'] = null
    for (const { account, rate } of pools.flatMap((pool) => pool.accounts))
      for (const { max, windowMs, text } of rate.windows) {
        const most = mostWithin(calls.get(account.id) ?? [], windowMs)
        if (fullest === null || most / max > fullest.calls / fullest.max)
          fullest = { calls: most, max, window: text }
      }
    return fullest
  }

  return {
    called(account) {
      const known = calls.get(account)
      if (known === undefined) calls.set(account, [clock.now()])
      else known.push(clock.now())
    },
    observe({ notification }) {
      const { id, status, timeline } = notification
      if (status === 'dead') {
        const cause = timeline.at(-1)?.reason ?? 'unknown'
        deadLetters[cause] = (deadLetters[cause] ?? 0) + 1
        dead.add(id)
      } else if (dead.delete(id) && status === 'queued') returned += 1
      if (status !== 'delivered') return
      const sinceMs = clock.now() - start
      delivered[sinceMs < fromMs ? 'before' : sinceMs < toMs ? 'during' : 'after'] += 1
    },
    figures(side) {
      const refusals = side.accounts().map((id) => side.counters(id).fates.rate_limit)
      return {
        count: pools.reduce((sum, { accounts }) => sum + accounts.length, 0),
        refused: refusals.filter((count) => count > 0).length,
        refusals: refusals.reduce((sum, count) => sum + count, 0),
        fullestWindow: fullestWindow(),
        deliveredPerSecond: {
          before: perSecond(delivered.before, fromMs),
          during: perSecond(delivered.during, toMs - fromMs),
          after: perSecond(delivered.after, durationMs - toMs),
        },
        deadLetters,
        returned,
      }
    },
  }
}

/** The most of these instants, which are in order, within one half-open window. */
function mostWithin(instants: readonly number[], windowMs: number): number {
  let most = 0
  let first = 0
  for (const [last, at] of instants.entries()) {
    while (at - instants[first]! >= windowMs) first += 1
    most = Math.max(most, last - first + 1)
  }
  return most
}
