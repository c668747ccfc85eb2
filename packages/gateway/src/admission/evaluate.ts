/**
 * The decision for a batch: opt-out and address (refusal.ts), duplicate (duplicates.ts), digest (digest-collector.ts), then the
 * limits and forbidden hours (apply-limits.ts), which answer with the earliest instant that all of them admit. Each step
 * asks once for all that are still undecided.
 */

import type { Channel, Notification } from '../model.ts'
import { advance } from '../model.ts'
import type { Policy } from '../policy/policy.ts'
import type { Clock, LimitState } from '../ports.ts'
import type { RecipientLimiter } from '../stages.ts'
import { createLimitApplication } from './apply-limits.ts'
import {
  type Candidate,
  type EvaluationMode,
  eventOf,
  patchOf,
  undecidedVerdict,
  type Verdict,
} from './candidate.ts'
import { createDigestCollector } from './digests/digest-collector.ts'
import type { OpenDigests } from './digests/open-digests.ts'
import { createDuplicates } from './duplicates.ts'
import { createEligibility } from './eligibility.ts'
import type { ForbiddenHours } from './quiet-hours.ts'

export interface EvaluatorOptions {
  readonly policy: Policy
  readonly limiter: RecipientLimiter
  readonly state: Pick<LimitState, 'claim' | 'releaseFingerprints'>
  readonly forbiddenHours: ForbiddenHours
  readonly digests: OpenDigests
  /** Channels on which nobody needs an address. */
  readonly selfAddressed: ReadonlySet<Channel>
  readonly clock: Clock
}

export interface Evaluator {
  /** Gives every case its verdict. */
  decide(candidates: readonly Candidate[], how?: EvaluationMode): Promise<void>
  /** The verdict where the recipient's preferences or addresses alone forbid it, whatever the limits say. */
  ineligibility(each: Candidate): Verdict | undefined
  /** The verdict on one that holds an instant, where its limits admit it earlier now. */
  advance(each: Candidate): Promise<Verdict | undefined>
  /** Gives back what the verdicts hold. */
  takeBack(candidates: readonly Candidate[]): Promise<void>
}

export function createEvaluator(options: EvaluatorOptions): Evaluator {
  const { policy, limiter, state, forbiddenHours, digests, selfAddressed, clock } = options
  const ineligibility = createEligibility({ policyVersion: policy.version, selfAddressed })
  const duplicates = createDuplicates({ policy, state })
  const digestCollector = createDigestCollector({ policy, digests })
  const reservations = createLimitApplication({
    policy,
    limiter,
    forbiddenHours,
    digestCollector,
    ineligibility,
    clock,
  })

  /** It waits for its end, and holds no instant that others could use. */
  function expiresBeforeItMayLeave({ expiresAt, sendAt }: Notification, now: number): Verdict | undefined {
    if (expiresAt === undefined || expiresAt > Math.max(now, sendAt ?? 0)) return undefined
    return undecidedVerdict(policy.version, expiresAt, 'send_at', { detail: 'expires before it may leave' })
  }

  return {
    ineligibility: (each) => ineligibility(each, each.notification.channel, clock.now()),
    advance: (each) => reservations.advance(each, clock.now()),

    async decide(candidates, how = {}) {
      const now = clock.now()
      for (const each of candidates) {
        const refused = ineligibility(each, each.notification.channel, now)
        if (refused !== undefined) each.verdict = refused
      }
      const claimed = how.again === true ? [] : await duplicates.find(candidates, now, how.dry === true)
      for (const each of candidates) {
        if (each.verdict !== undefined) continue
        const spec = how.patient === true ? undefined : digestCollector.specFor(each)
        if (spec === undefined) each.verdict = expiresBeforeItMayLeave(each.notification, now)
        else await digestCollector.collect(each, spec, now, how)
      }
      await reservations.applyLimits(
        candidates.filter((each) => each.verdict === undefined),
        now,
        how,
      )
      if (claimed.length > 0) await duplicates.confirm(claimed)
    },

    async takeBack(candidates) {
      const booked = candidates.filter((each) => each.verdict?.booked === true)
      if (booked.length > 0) {
        const reservationRequests = booked.map(({ notification, recipient, verdict }) => ({
          notification: { ...notification, ...verdict!.patch },
          recipient,
        }))
        await limiter.cancel(reservationRequests)
      }
      for (const { notification, recipient, verdict } of candidates) {
        if (verdict?.countsRefusal !== true) continue
        await limiter.forgetRefusal({ notification: { ...notification, ...verdict.patch }, recipient })
      }
      await duplicates.free(candidates.filter((each) => each.verdict?.claimed === true))
      for (const each of candidates)
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
