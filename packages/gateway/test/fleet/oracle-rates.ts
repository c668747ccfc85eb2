/**
 * Counts the acceptances of tenants and modules in every rolling window, by the instants of the clients: an acceptance
 * counts somewhere between its request and its answer, so that as many as lie wholly within a window must fit into it. Those
 * that waited in a throttle queue count when their turn came, by the record.
 */
import type { Notification } from '../../src/model.ts'
import type { Exchange } from './client.ts'
import type { Watched } from './oracle.ts'
import type { WatchedRecord } from './oracle-record.ts'
import { isRefusing, type RateRule } from './settings.ts'

interface Counted {
  readonly from: number
  readonly to: number
  readonly id: string
  /** Its turn in a throttle queue was promised to it. */
  readonly wasPromised: boolean
}

export interface WatchedRates {
  /** Counts all windows, when the record is complete. */
  check(told: ReadonlyMap<string, Exchange>): void
}

/** The record holds instants of the time line, which a restart may move by this, ms. */
const slackMs = 5

export function watchRates({ world, settings, client }: Watched, { rows }: WatchedRecord): WatchedRates {
  function countedOf(row: Notification, told: ReadonlyMap<string, Exchange>): Counted | undefined {
    const { id, priority, actors, turnedAt } = row
    // A critical one counts and is not held up; a digest was counted by its items.
    if (priority === 'critical' || actors !== undefined || row.job !== undefined) return undefined
    const reason = row.timeline[1]?.reason
    // One that was accepted while the limits could not be asked counts when it is decided.
    const hasWaited = reason === 'tenant_limit' || reason === 'module_limit' || reason === 'state_unavailable'
    // A turn that was refused is taken again, and counts from the first time: only the later one is on record.
    if (hasWaited)
      return !isRefusing(settings) && turnedAt !== undefined
        ? { id, from: turnedAt, to: turnedAt, wasPromised: true }
        : undefined
    const exchange = told.get(id)
    if (exchange?.answeredAt === undefined || row.status === 'suppressed') return undefined
    // A request that was repeated may have been accepted the first time.
    const first = client.exchanges.find(({ operation }) => operation === exchange.operation)!
    return { id, from: first.sentAt, to: exchange.answeredAt, wasPromised: false }
  }

  /**
   * Where processes have different rates, nobody knows which of them let the last one of a window pass: then none may have. A
   * turn that was promised under one rate stands while processes with another let others pass before it: then no window may
   * have more than both together let pass.
   */
  function checkWindow(rules: readonly RateRule[], module: string, all: readonly Counted[]): void {
    const together = (windowMs: number): number =>
      rules.reduce((sum, { max, windowMs: ownMs }) => sum + max * Math.ceil(windowMs / ownMs), 0)
    for (const { id, to, wasPromised } of all) {
      const counts = rules.map(
        ({ windowMs }) => all.filter((each) => each.to <= to && each.from > to - windowMs + slackMs).length,
      )
      const isMixed = rules[0] !== rules[1]
      const most = ({ max, windowMs }: RateRule): number =>
        wasPromised && isMixed ? together(windowMs) : max
      if (rules.some((rule, index) => counts[index]! <= most(rule))) continue
      const [{ of, tenant, max, windowMs }] = rules as [RateRule]
      const name = of === 'tenant' ? tenant : `${tenant}/${module}`
      world.violate('2 acceptances', `${counts[0]} of ${name} in ${windowMs} ms, of ${max}: ${id}`)
      return
    }
  }

  return {
    check(told) {
      for (const [index, rule] of settings.rates.entries()) {
        const rules = [rule, settings.changedRates?.[index] ?? rule]
        const ofTenant = [...rows.values()].filter(({ tenant }) => tenant === rule.tenant)
        const groups =
          rule.of === 'tenant' ? [ofTenant] : [...Map.groupBy(ofTenant, ({ module }) => module).values()]
        for (const group of groups) {
          const counted = group.map((row) => countedOf(row, told)).filter((each) => each !== undefined)
          checkWindow(rules, group[0]?.module ?? '', counted)
        }
      }
    },
  }
}
