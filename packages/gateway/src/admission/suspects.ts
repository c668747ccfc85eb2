/**
 * Counts in the limits those notifications that a dead process may have sent. The record has each as a suspect already, so
 * only subjects that are filled must be told (`LimitState.recount`).
 */
import type { Notification } from '../model.ts'
import type { Policy } from '../policy/policy.ts'
import type { LimitState } from '../ports.ts'
import type { Recipients } from '../stages.ts'

export interface SuspectsOptions {
  readonly state: Pick<LimitState, 'recount'>
  readonly policy: Pick<Policy, 'rulesFor'>
  readonly recipients: Pick<Recipients, 'findAll'>
}

/** Counts the last suspect of each notification as sent now. Rejects where the state or the store does not answer. */
export type CountSuspects = (suspected: readonly Notification[]) => Promise<void>

export function createSuspects({ state, policy, recipients }: SuspectsOptions): CountSuspects {
  return async (suspected) => {
    const keys = suspected.map(({ tenant, to }) => ({ tenant, recipient: to.id }))
    const found = await recipients.findAll(keys)
    const requests = suspected.flatMap((notification, index) => {
      const recipient = found[index]!
      // By the rules of a recipient without preferences where the row is damaged.
      const rules = policy.rulesFor(notification, recipient instanceof Error ? null : recipient)
      const id = `${notification.id}?${(notification.suspects?.length ?? 1) - 1}`
      return rules.map((of) => ({ subject: of.subject, id, rules: of.rules }))
    })
    if (requests.length > 0) await state.recount(requests)
  }
}
