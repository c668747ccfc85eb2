/** Reads from a notification what a plan of instants needs of it, and no more: there may be as many as wait of a tenant. */
import type { Recipient } from '../model.ts'
import type { SubjectRules } from '../policy/policy.ts'
import type { Admission } from '../ports.ts'
import type { ForbiddenHours } from './quiet-hours.ts'
import type { HeldInstant } from './slot-plan.ts'

/** The fields of a notification by which its limits and hours are found. */
type Holder = Pick<
  Admission,
  'id' | 'tenant' | 'module' | 'to' | 'channel' | 'category' | 'priority' | 'dueAt'
>

/** @param all - the limits of all subjects that count it */
export type HeldInstantOf = (
  holder: Holder,
  all: readonly SubjectRules[],
  recipient: Recipient | null,
) => HeldInstant

export function createHeldInstants(
  forbiddenHours: Pick<ForbiddenHours, 'forbidden' | 'hasHours'>,
): HeldInstantOf {
  return (holder, all, recipient) => {
    const { id, dueAt: at } = holder
    const held: HeldInstant = { id, at, limits: all.filter(({ rules }) => rules.length > 0) }
    if (!forbiddenHours.hasHours(holder, recipient)) return held
    const { tenant, module, channel, category, priority, to } = holder
    const { timeZone, phone } = to
    const whose = {
      id: to.id,
      ...(timeZone === undefined ? {} : { timeZone }),
      ...(phone === undefined ? {} : { phone }),
    }
    const countable = { id, tenant, module, channel, category, priority, to: whose }
    return { ...held, forbidden: (from: number) => forbiddenHours.forbidden(countable, recipient, from) }
  }
}
