/**
 * Keeps newcomers behind those who waited before a hold of notifications began, moved or ended: until the walk through
 * the record (hold-walk.ts) has reached these, they hold instants that the hold forbids, and a newcomer of the same
 * subject would be booked before them. While the walk is under way, a subject that a newcomer asks for is settled first
 * (hold-order.ts), once for each change of the holds. Where the store fails meanwhile, the newcomer is refused, and the
 * walk settles the subject again.
 */
import type { Policy } from '../policy/policy.ts'
import type { Subject } from '../ports.ts'
import type { RecipientLimiter } from '../stages.ts'
import type { SettleHeld, Settling } from './hold-order.ts'

export interface HeldSubjects {
  /** Holds have changed: no subject is settled any more. `settle` pauses the subject in the step that calls it. */
  changed(settle: SettleHeld): void
  /**
   * Settles those of the subjects that are not settled yet, and all that failed; rejects where one fails (again). Returns
   * the keys of those in which all were booked.
   */
  reach(subjects: readonly Subject[]): Promise<ReadonlySet<string>>
  /** The walk has reached everybody: newcomers are decided at once again. */
  over(): void
  /** Settles the subjects of each newcomer before it is reserved. */
  behind(limiter: RecipientLimiter): RecipientLimiter
}

/** Subjects that are known to be settled; beyond that all are settled again when they are asked for next. */
const settledMax = 100_000

export function createHeldSubjects({ policy }: { readonly policy: Pick<Policy, 'rulesFor'> }): HeldSubjects {
  /** Settled subjects by key, and those that are being settled. */
  const settled = new Map<string, Settling>()
  /** Subjects that could not be settled: at most `settledMax`, since the walk rests after a failure. */
  const failed = new Map<string, Subject>()
  /** Undefined while no walk is under way. */
  let settle: SettleHeld | undefined

  function settlingOf(subject: Subject): Settling {
    const { key } = subject
    const known = settled.get(key)
    if (known !== undefined) return known
    if (settled.size >= settledMax) settled.clear()
    const settling = settle!(subject)
    settled.set(key, settling)
    settling.over.then(
      () => failed.delete(key),
      () => {
        if (failed.size < settledMax) failed.set(key, subject)
        if (settled.get(key) === settling) settled.delete(key)
      },
    )
    return settling
  }

  return {
    changed(by) {
      settled.clear()
      settle = by
    },
    async reach(subjects) {
      const booked = new Set<string>()
      const reachOne = async (subject: Subject): Promise<void> => {
        const settling = settlingOf(subject)
        await settling.over
        if (await settling.booked) booked.add(subject.key)
      }
      if (settle !== undefined) await Promise.all([...failed.values(), ...subjects].map(reachOne))
      return booked
    },
    over() {
      settled.clear()
      settle = undefined
    },
    behind: (limiter) => ({
      ...limiter,
      reserve(requests) {
        if (settle === undefined) return limiter.reserve(requests)
        const settlings: Promise<unknown>[] = []
        for (const { notification, recipient, waited } of requests) {
          // One that waited before is moved by the walk, or by a settling: it would wait for itself.
          if (waited === true) continue
          const limited = policy.rulesFor(notification, recipient).filter(({ rules }) => rules.length > 0)
          const own = limited.map(({ subject }) => settlingOf(subject).booked)
          // A critical one waits for nobody (contract, Moving up).
          if (notification.priority !== 'critical') settlings.push(...own)
        }
        // The state holds the newcomer up after that, until those who wait have moved up.
        return Promise.all(settlings).then(() => limiter.reserve(requests))
      },
    }),
  }
}
