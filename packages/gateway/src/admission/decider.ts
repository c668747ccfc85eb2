/**
 * The decision for a batch: opt-out and address (refusal.ts), duplicate (duplicates.ts), digest (collector.ts), then the
 * limits and forbidden hours (bookings.ts), which answer with the earliest instant that all of them admit. Each step
 * asks once for all that are still undecided.
 */
import type { Book } from '../doors.ts'
import type { Channel, Notification } from '../model.ts'
import { advance } from '../model.ts'
import type { Policy } from '../policy/policy.ts'
import type { Clock, LimitState } from '../ports.ts'
import { createBookings } from './bookings.ts'
import { type Case, type Deciding, eventOf, patchOf, undecidedVerdict, type Verdict } from './case.ts'
import { createCollector } from './collector.ts'
import { createDuplicates } from './duplicates.ts'
import type { Hours } from './hours.ts'
import type { OpenDigests } from './open-digests.ts'
import { createRefusal } from './refusal.ts'

export interface DeciderOptions {
  readonly policy: Policy
  readonly book: Book
  readonly state: Pick<LimitState, 'claim' | 'unclaim'>
  readonly hours: Hours
  readonly digests: OpenDigests
  /** Channels on which nobody needs an address. */
  readonly selfAddressed: ReadonlySet<Channel>
  readonly clock: Clock
}

export interface Decider {
  /** Gives every case its verdict. */
  decide(cases: readonly Case[], how?: Deciding): Promise<void>
  /** The verdict where the person's preferences or addresses alone forbid it, whatever the limits say. */
  refusal(each: Case): Verdict | undefined
  /** The verdict on one that holds an instant, where its limits admit it earlier now. */
  advance(each: Case): Promise<Verdict | undefined>
  /** Gives back what the verdicts hold. */
  takeBack(cases: readonly Case[]): Promise<void>
}

export function createDecider(options: DeciderOptions): Decider {
  const { policy, book, state, hours, digests, selfAddressed, clock } = options
  const refusal = createRefusal({ policyVersion: policy.version, selfAddressed })
  const duplicates = createDuplicates({ policy, state })
  const collector = createCollector({ policy, digests })
  const bookings = createBookings({ policy, book, hours, collector, refusal, clock })

  /** It waits for its end, and holds no instant that others could use. */
  function expiresBeforeItMayLeave({ expiresAt, sendAt }: Notification, now: number): Verdict | undefined {
    if (expiresAt === undefined || expiresAt > Math.max(now, sendAt ?? 0)) return undefined
    return undecidedVerdict(policy.version, expiresAt, 'send_at', { detail: 'expires before it may leave' })
  }

  return {
    refusal: (each) => refusal(each, each.notification.channel, clock.now()),
    advance: (each) => bookings.advance(each, clock.now()),

    async decide(cases, how = {}) {
      const now = clock.now()
      for (const each of cases) {
        const refused = refusal(each, each.notification.channel, now)
        if (refused !== undefined) each.verdict = refused
      }
      const claimed = how.again === true ? [] : await duplicates.find(cases, now, how.dry === true)
      for (const each of cases) {
        if (each.verdict !== undefined) continue
        const spec = how.patient === true ? undefined : collector.specFor(each)
        if (spec === undefined) each.verdict = expiresBeforeItMayLeave(each.notification, now)
        else await collector.collect(each, spec, now, how)
      }
      await bookings.conclude(
        cases.filter((each) => each.verdict === undefined),
        now,
        how,
      )
      if (claimed.length > 0) await duplicates.settle(claimed)
    },

    async takeBack(cases) {
      const booked = cases.filter((each) => each.verdict?.booked === true)
      if (booked.length > 0) {
        const askings = booked.map(({ notification, person, verdict }) => ({
          notification: { ...notification, ...verdict!.patch },
          person,
        }))
        await book.cancel(askings)
      }
      for (const { notification, person, verdict } of cases) {
        if (verdict?.countsRefusal !== true) continue
        await book.forgetRefusal({ notification: { ...notification, ...verdict.patch }, person })
      }
      await duplicates.free(cases.filter((each) => each.verdict?.claimed === true))
      for (const each of cases)
        if (each.verdict?.digest?.opens === true) digests.forget(each.verdict.digest.digest)
    },
  }
}

/** The move of a notification on record to its verdict. */
export function moveTo(
  before: Notification,
  now: number,
  verdict: Verdict,
  path: Notification['timeline'] = [],
) {
  return advance(before, [...path, eventOf(now, verdict)], patchOf(verdict))
}
