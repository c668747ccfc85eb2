/**
 * Keeps newcomers behind those who waited before a hold of notifications began, moved or ended: until the walk through
 * the record (hold-walk.ts) has reached these, they hold instants that the hold forbids, and a newcomer of the same
 * subject would be booked before them. While the walk is under way, a subject that a newcomer asks for is rebooked first
 * (hold-order.ts), once for each change of the holds. Where the store fails meanwhile, the newcomer is refused, and the
 * walk rebooks the subject once more.
 */
import type { Policy } from '../policy/policy.ts'
import type { Subject } from '../ports.ts'
import type { RecipientLimiter } from '../stages.ts'
import type { RebookHeld, Rebooking } from './hold-order.ts'

export interface HeldSubjects {
  /** Holds have changed: no subject counts as rebooked any more. `rebook` pauses the subject in the step that calls it. */
  changed(rebook: RebookHeld): void
  /**
   * Rebooks those of the subjects that are not rebooked yet, and all that failed; rejects where one fails (again). Returns
   * the keys of those in which all were booked.
   */
  reach(subjects: readonly Subject[]): Promise<ReadonlySet<string>>
  /** The walk has reached everybody: newcomers are decided at once again. */
  over(): void
  /** Rebooks the subjects of each newcomer before it is reserved. */
  behind(limiter: RecipientLimiter): RecipientLimiter
}

/** Subjects that are known to be rebooked; beyond that all are rebooked again when they are asked for next. */
const rebookedMax = 100_000

export function createHeldSubjects({ policy }: { readonly policy: Pick<Policy, 'rulesFor'> }): HeldSubjects {
  /** Rebooked subjects by key, and those that are being rebooked. */
  const rebooked = new Map<string, Rebooking>()
  /** Subjects that could not be rebooked: at most `rebookedMax`, since the walk rests after a failure. */
  const failed = new Map<string, Subject>()
  /** Undefined while no walk is under way. */
  let rebook: RebookHeld | undefined

  function rebookingOf(subject: Subject): Rebooking {
    const { key } = subject
    const known = rebooked.get(key)
    if (known !== undefined) return known
    if (rebooked.size >= rebookedMax) rebooked.clear()
    const rebooking = rebook!(subject)
    rebooked.set(key, rebooking)
    rebooking.over.then(
      () => failed.delete(key),
      () => {
        if (failed.size < rebookedMax) failed.set(key, subject)
        if (rebooked.get(key) === rebooking) rebooked.delete(key)
      },
    )
    return rebooking
  }

  return {
    changed(by) {
      rebooked.clear()
      rebook = by
    },
    async reach(subjects) {
      const booked = new Set<string>()
      const reachOne = async (subject: Subject): Promise<void> => {
        const rebooking = rebookingOf(subject)
        await rebooking.over
        if (await rebooking.booked) booked.add(subject.key)
      }
      if (rebook !== undefined) await Promise.all([...failed.values(), ...subjects].map(reachOne))
      return booked
    },
    over() {
      rebooked.clear()
      rebook = undefined
    },
    behind: (limiter) => ({
      ...limiter,
      reserve(requests) {
        if (rebook === undefined) return limiter.reserve(requests)
        const rebookings: Promise<unknown>[] = []
        for (const { notification, recipient, waited } of requests) {
          // One that waited before is moved by the walk, or by a rebooking: it would wait for itself.
          if (waited === true) continue
          const limited = policy.rulesFor(notification, recipient).filter(({ rules }) => rules.length > 0)
          const own = limited.map(({ subject }) => rebookingOf(subject).booked)
          // A critical one waits for nobody (contract, Moving up).
          if (notification.priority !== 'critical') rebookings.push(...own)
        }
        // The state holds the newcomer up after that, until those who wait have moved up.
        return Promise.all(rebookings).then(() => limiter.reserve(requests))
      },
    }),
  }
}
