/**
 * Keeps newcomers behind those who waited before a hold of notifications began, moved or ended: until the walk through
 * the record (hold-walk.ts) has reached these, they hold instants that the hold forbids, and a newcomer of the same
 * subject would be booked before them. While the walk is under way, a subject that a newcomer asks for is settled first
 * (hold-order.ts), once for each change of the holds.
 */
import type { Policy } from '../policy/policy.ts'
import type { Subject } from '../ports.ts'
import type { RecipientLimiter } from '../stages.ts'
import type { SettleHeld } from './hold-order.ts'

export interface HeldSubjects {
  /** Holds have changed: no subject is settled any more. `settle` pauses the subject in the step that calls it. */
  changed(settle: SettleHeld): void
  /** Settles those of the subjects that are not settled yet. */
  reach(subjects: readonly Subject[]): Promise<void>
  /** The walk has reached everybody: newcomers are decided at once again. */
  over(): void
  /** Settles the subjects of each newcomer before it is reserved. */
  behind(limiter: RecipientLimiter): RecipientLimiter
}

/** Subjects that are known to be settled; beyond that all are settled again when they are asked for next. */
const settledMax = 100_000

export function createHeldSubjects({ policy }: { readonly policy: Pick<Policy, 'rulesFor'> }): HeldSubjects {
  const settled = new Set<string>()
  /** Undefined while no walk is under way. */
  let settle: SettleHeld | undefined

  async function reach(subjects: readonly Subject[]): Promise<void> {
    const ahead = subjects.filter(({ key }) => !settled.has(key))
    if (ahead.length === 0 || settle === undefined) return
    if (settled.size + ahead.length > settledMax) settled.clear()
    for (const { key } of ahead) settled.add(key)
    await Promise.all(ahead.map(settle))
  }

  return {
    changed(by) {
      settled.clear()
      settle = by
    },
    reach,
    over() {
      settled.clear()
      settle = undefined
    },
    behind: (limiter) => ({
      ...limiter,
      reserve(requests) {
        if (settle === undefined) return limiter.reserve(requests)
        for (const { notification, recipient, waited } of requests) {
          // One that waited before is moved by the walk, or by a settling: it would wait for itself.
          if (waited === true) continue
          const limited = policy.rulesFor(notification, recipient).filter(({ rules }) => rules.length > 0)
          // The subjects are paused in this step, and the state holds the newcomer up until they are settled.
          void reach(limited.map(({ subject }) => subject))
        }
        return limiter.reserve(requests)
      },
    }),
  }
}
