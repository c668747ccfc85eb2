/**
 * Evaluates a batch of candidates: opt-out and address (eligibility.ts), duplicates (duplicates.ts), digests
 * (digest-collector.ts), then limits and quiet hours (apply-limits.ts), which find the earliest time that all of them
 * admit. Each step makes one call for all candidates that have no verdict yet.
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
  readonly state: Pick<LimitState, 'holdFingerprints' | 'releaseFingerprints'>
  readonly forbiddenHours: ForbiddenHours
  readonly digests: OpenDigests
  /** Channels that need no recipient address. */
  readonly selfAddressed: ReadonlySet<Channel>
  readonly clock: Clock
}

export interface Evaluator {
  /** Gives every candidate its verdict. */
  decide(candidates: readonly Candidate[], mode?: EvaluationMode): Promise<void>
  /** Returns the verdict of suppression where preferences or addresses alone forbid the notification. */
  ineligibility(each: Candidate): Verdict | undefined
  /** Returns a new verdict where the limits now admit a scheduled notification earlier. */
  advance(each: Candidate): Promise<Verdict | undefined>
  /** Gives back everything that the verdicts hold. */
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

  /** Schedules a notification that expires before its `sendAt` for its expiry, without a reservation. */
  function expiresBeforeItMayLeave({ expiresAt, sendAt }: Notification, now: number): Verdict | undefined {
    if (expiresAt === undefined || expiresAt > Math.max(now, sendAt ?? 0)) return undefined
    return undecidedVerdict(policy.version, expiresAt, 'send_at', { detail: 'expires before it may leave' })
  }

  return {
    ineligibility: (each) => ineligibility(each, each.notification.channel, clock.now()),
    advance: (each) => reservations.advance(each, clock.now()),

    async decide(candidates, mode = {}) {
      const now = clock.now()
      for (const each of candidates) {
        const refused = ineligibility(each, each.notification.channel, now)
        if (refused !== undefined) each.verdict = refused
      }
      const claimed = mode.again === true ? [] : await duplicates.find(candidates, now, mode.dry === true)
      for (const each of candidates) {
        if (each.verdict !== undefined) continue
        const spec = mode.patient === true ? undefined : digestCollector.specFor(each)
        if (spec === undefined) each.verdict = expiresBeforeItMayLeave(each.notification, now)
        else await digestCollector.collect(each, spec, now, mode)
      }
      await reservations.applyLimits(
        candidates.filter((each) => each.verdict === undefined),
        now,
        mode,
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

/** Builds the move of a stored notification to its verdict. */
export function moveTo(
  before: Notification,
  now: number,
  verdict: Verdict,
  path: Notification['timeline'] = [],
) {
  return advance(before, [...path, eventOf(now, verdict)], patchOf(verdict))
}
