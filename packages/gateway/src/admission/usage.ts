/** Reports how much of each limit a recipient has used: the limits met lately, and the others at zero. */

import { channels, type Priority } from '../model.ts'
import { limitName } from '../policy/counter.ts'
import type { Policy } from '../policy/policy.ts'
import type { Clock, Countable, LimitState, Store } from '../ports.ts'
import type { LimitUsage } from '../stages.ts'

export interface UsageOptions {
  readonly state: LimitState
  readonly policy: Policy
  readonly store: Store
  readonly clock: Clock
}

/** Newest admissions whose authors and categories are shown. */
const admissionsShown = 200

export function createUsage(options: UsageOptions) {
  const { state, policy, store, clock } = options

  return async function usage(tenant: string, recipient: string): Promise<readonly LimitUsage[]> {
    const since = clock.now() - policy.longestWindowMs
    const met = await store.admissions({ tenant, recipient, since, limit: admissionsShown })
    const named = policy.selectors.flatMap(({ channel, category, template }): Countable[] =>
      (channel === undefined ? channels : [channel]).map((on) => ({
        tenant,
        module: '',
        to: { id: recipient },
        channel: on,
        category: category ?? '',
        priority: 'normal',
        ...(template === undefined ? {} : { template }),
      })),
    )
    const seen = new Set<string>()
    const rows: LimitUsage[] = []
    const urgent = named.slice(0, 1).map((countable) => ({ ...countable, priority: 'critical' as const }))
    // Limits let a critical notification pass and would report free slots: other priorities are previewed first.
    const usual = met.map((countable) => ({ ...countable, priority: usualOf(countable.priority) }))
    for (const countable of [...usual, ...named, ...met, ...urgent]) {
      for (const { subject, rules } of policy.rulesFor(countable)) {
        if (subject.recipient === undefined) continue
        for (const rule of rules) {
          const key = `${rule.name}\n${rule.stream}`
          if (seen.has(key)) continue
          seen.add(key)
          const [reservation] = await state.preview([{ subject, id: 'usage', rules: [rule], waited: true }])
          for (const { limit, window, used, max, remaining, reserved, freesAt } of reservation!.rules) {
            rows.push({
              limit: limitName(limit),
              window,
              used,
              max,
              remaining,
              reserved,
              freesAt: Number.isFinite(freesAt) ? freesAt : null,
            })
          }
        }
      }
    }
    return shown(rows)
  }
}

const usualOf = (priority: Priority): Priority => (priority === 'critical' ? 'normal' : priority)

/** Keeps a row for each author or category that a limit has counted, and one row where it counted none. */
function shown(rows: readonly LimitUsage[]): readonly LimitUsage[] {
  const met = new Set(rows.filter(isMet).map(keyOf))
  const unmet = new Set<string>()
  return rows.filter((row) => {
    if (isMet(row)) return true
    const key = keyOf(row)
    if (met.has(key) || unmet.has(key)) return false
    unmet.add(key)
    return true
  })
}

const isMet = ({ used, reserved }: LimitUsage): boolean => used > 0 || reserved > 0
const keyOf = ({ limit, window }: LimitUsage): string => `${limit}\n${window}`
