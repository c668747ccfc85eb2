/**
 * Applies recipient limits and quiet hours. Each candidate is reserved at the earliest allowed time, dropped, added to
 * a digest, moved to a fallback channel, or delayed. All undecided candidates share one call to the limiter, and nearly
 * all of them have their verdict from its answer alone, without another await.
 */

import type { Channel, Notification } from '../model.ts'
import { limitName } from '../policy/counter.ts'
import type { Over, Policy } from '../policy/policy.ts'
import type { Clock, Reservation } from '../ports.ts'
import type { RecipientLimiter, ReservationRequest } from '../stages.ts'
import type { UndoList } from '../undo.ts'
import {
  type Candidate,
  type Evaluation,
  type Mutable,
  reservedVerdict,
  ruleReports,
  suppressed,
  undecidedVerdict,
  type Verdict,
  withoutHeld,
} from './candidate.ts'
import type { DigestCollector } from './digests/digest-collector.ts'
import type { EligibilityCheck } from './eligibility.ts'
import { behindRules } from './fallback-rules.ts'
import type { ForbiddenHours } from './quiet-hours.ts'

export interface LimitApplicationOptions {
  readonly policy: Policy
  readonly limiter: RecipientLimiter
  readonly forbiddenHours: ForbiddenHours
  readonly digestCollector: DigestCollector
  readonly ineligibility: EligibilityCheck
  readonly clock: Clock
}

export interface LimitApplication {
  /** Gives each candidate its verdict. */
  applyLimits(candidates: readonly Candidate[], evaluation: Evaluation): Promise<void>
  /** Returns a new verdict where a scheduled notification may leave earlier, or holds a later instant than on record. */
  advance(candidate: Candidate, now: number): Promise<Verdict | undefined>
}

interface CandidateRequest extends ReservationRequest {
  readonly notification: Notification
  readonly notBefore: number
}

/** The fallback channel, and the limit that asked for it. */
interface Fallback {
  readonly channel: Channel
  readonly limit: string
}

/** A candidate with its request to the limiter and the answer, from which its verdict follows. */
interface Answered {
  readonly candidate: Candidate
  readonly reservationRequest: CandidateRequest
  readonly reservation: Reservation
  readonly fallback?: Fallback
}

export function createLimitApplication(options: LimitApplicationOptions): LimitApplication {
  const { policy, limiter, forbiddenHours, digestCollector, ineligibility, clock } = options

  async function ask(
    reservationRequests: readonly CandidateRequest[],
    { undo, isHeldElsewhere }: Evaluation,
  ): Promise<readonly Reservation[]> {
    if (undo === undefined) return limiter.preview(reservationRequests)
    let answers: readonly Reservation[] | undefined
    // An id that got no slot here may hold one that another process reserved. After an error it is not known who got one.
    const reservedHere = () => reservationRequests.filter((_, index) => answers?.[index]?.held !== false)
    undo.add(async () => limiter.takeBack(await withoutHeld(reservedHere(), isHeldElsewhere)))
    answers = await limiter.reserve(reservationRequests)
    return answers
  }

  function reservationRequestOf(
    { notification, recipient }: Candidate,
    { now, waited, waitOnly }: Pick<Evaluation, 'now' | 'waited' | 'waitOnly'>,
  ): CandidateRequest {
    const { sendAt = 0, expiresAt = Number.POSITIVE_INFINITY, single } = notification
    // A hold is no delay by the policy: `maxDelay` counts from its end.
    const notBefore = Math.max(now, sendAt, forbiddenHours.heldUntil(notification) ?? 0)
    const horizonMs = Math.max(0, Math.min(policy.maxDelayMs, expiresAt - notBefore - 1))
    const request: Mutable<CandidateRequest> = { notification, recipient, notBefore, horizonMs }
    if (waited === true) request.waited = true
    if (waitOnly === true || single === true) request.waitOnly = true
    return request
  }

  /** Sets the verdict that follows from an answer; returns a promise only where another call is needed. */
  function setVerdict(answer: Answered, evaluation: Evaluation): Promise<void> | undefined {
    const { now, policyVersion, undo } = evaluation
    const { candidate, reservationRequest, reservation, fallback } = answer
    const { notification } = reservationRequest
    if (reservation.held) {
      give(candidate, heldVerdict(answer, policyVersion), fallback)
      return undefined
    }
    const { limit, over } = strongestOf(reservation)
    const follows: Over = reservationRequest.waitOnly === true ? { kind: 'delay' } : over
    switch (follows.kind) {
      case 'drop':
        candidate.verdict = suppressed(policyVersion, now, 'over_limit', {
          limit,
          rules: ruleReports(reservation),
        })
        return undo === undefined || !policy.countsRefused ? undefined : countRefusal(answer, undo)
      case 'digest':
        return digestCollector.collect(candidate, policy.digest(follows.digest)!, evaluation, {
          limit,
          reservation,
        })
      case 'fallback':
        return fallback === undefined && notification.requestedChannel === undefined
          ? fallBack(answer, { channel: follows.channel, limit }, evaluation)
          : waitForLimits(answer, evaluation)
      case 'delay':
        give(candidate, tooLateVerdict(answer, evaluation), fallback)
        return undefined
    }
  }

  /** A refusal that counts is stored with the time of its suppression in `firedAt`. */
  async function countRefusal(answer: Answered, undo: UndoList): Promise<void> {
    const { candidate, reservationRequest, fallback } = answer
    undo.add(() => limiter.forgetRefusal(reservationRequest))
    if (!(await limiter.countRefusal(reservationRequest))) return
    const verdict = candidate.verdict!
    give(candidate, { ...verdict, patch: { firedAt: verdict.dueAt } }, fallback)
  }

  function heldVerdict(answer: Answered, policyVersion: string): Verdict {
    const { reservationRequest, reservation, fallback } = answer
    return reservedVerdict({
      policyVersion,
      now: clock.now(),
      notBefore: reservationRequest.notBefore,
      reservation,
      forbiddenHours: forbiddenHoursOf(reservationRequest, reservation),
      ...(fallback === undefined ? {} : { fallback }),
    })
  }

  /** Finds the quiet or legal hours that set the time: those in force now, or those into which a limit moved it. */
  function forbiddenHoursOf(
    { notification, recipient, notBefore }: CandidateRequest,
    reservation: Reservation,
  ) {
    const { at, firstAt, limit } = reservation
    if (limit !== undefined) return undefined
    if (at === notBefore)
      return forbiddenHours.heldUntil(notification) === at
        ? forbiddenHours.heldBecause(notification)
        : undefined
    const ended = forbiddenHours.reasonUntil(notification, recipient, at)
    return ended === undefined && firstAt > notBefore
      ? forbiddenHours.reasonAt(notification, recipient, notBefore)
      : ended
  }

  /** Picks the strongest `over` action of the refusing limits; a refusal by quiet hours alone is a delay. */
  function strongestOf({ refusedBy }: Reservation): { readonly limit: string; readonly over: Over } {
    return refusedBy.length === 0 ? { limit: '', over: { kind: 'delay' } } : policy.strongest(refusedBy)
  }

  /** Evaluates the candidate under the limits of the fallback channel, once. */
  async function fallBack(answer: Answered, fallback: Fallback, evaluation: Evaluation): Promise<void> {
    const { candidate, reservation } = answer
    const { notification: asked, recipient } = candidate
    const moved: Candidate = {
      notification: { ...asked, channel: fallback.channel, requestedChannel: asked.channel },
      recipient,
    }
    const refused = ineligibility(candidate, fallback.channel, evaluation, fallback.limit)
    if (refused !== undefined) {
      give(candidate, behindRules(reservation, refused), fallback)
      return
    }
    const reservationRequest = reservationRequestOf(moved, evaluation)
    const [moving] = await ask([reservationRequest], evaluation)
    await setVerdict({ candidate: moved, reservationRequest, reservation: moving!, fallback }, evaluation)
    give(candidate, behindRules(reservation, moved.verdict!), fallback)
  }

  /** Delays a candidate that would fall back a second time: it waits for its limits instead. */
  async function waitForLimits(answer: Answered, evaluation: Evaluation): Promise<void> {
    const reservationRequest = { ...answer.reservationRequest, waitOnly: true }
    const [reservation] = await ask([reservationRequest], evaluation)
    await setVerdict({ ...answer, reservationRequest, reservation: reservation! }, evaluation)
  }

  /** Handles a time out of bounds: beyond its expiry a notification waits for that, beyond maxDelay it is suppressed. */
  function tooLateVerdict(answer: Answered, { now, policyVersion }: Evaluation): Verdict {
    const { reservationRequest, reservation } = answer
    const { notification, notBefore } = reservationRequest
    const { expiresAt = Number.POSITIVE_INFINITY } = notification
    const rules = ruleReports(reservation)
    const { at, limit: delayedBy } = reservation
    if (at !== Number.POSITIVE_INFINITY && at >= expiresAt && expiresAt - notBefore <= policy.maxDelayMs) {
      const verdict = undecidedVerdict(
        policyVersion,
        expiresAt,
        delayedBy === undefined
          ? (forbiddenHoursOf(reservationRequest, reservation) ?? 'quiet_hours')
          : 'recipient_limit',
        {
          at,
          ...(delayedBy === undefined ? {} : { limit: limitName(delayedBy) }),
          rules,
          detail: 'expires before it may leave',
        },
      )
      return { ...verdict, waitlisted: true }
    }
    const limit = delayedBy ?? reservation.refusedBy[0]
    return suppressed(policyVersion, now, 'over_limit', {
      ...(limit === undefined ? {} : { limit: limitName(limit) }),
      rules,
      detail: 'beyond maxDelay',
    })
  }

  return {
    async applyLimits(candidates, evaluation) {
      if (candidates.length === 0) return
      const reservationRequests = candidates.map((candidate) => reservationRequestOf(candidate, evaluation))
      const reservations = await ask(reservationRequests, evaluation)
      for (const [index, candidate] of candidates.entries()) {
        const more = setVerdict(
          { candidate, reservationRequest: reservationRequests[index]!, reservation: reservations[index]! },
          evaluation,
        )
        if (more !== undefined) await more
      }
    },
    async advance(candidate, now) {
      const { version } = policy
      const promisedAt = candidate.notification.dueAt
      const reservationRequest = { ...reservationRequestOf(candidate, { now, waitOnly: true }), promisedAt }
      const reservation = await limiter.advance(reservationRequest)
      return reservation && heldVerdict({ candidate, reservationRequest, reservation }, version)
    },
  }
}

/** Gives a verdict, with the fields that every verdict on an undecided or a moved notification has to write. */
function give(candidate: Candidate, verdict: Verdict, fallback: Fallback | undefined): void {
  const { channel, requestedChannel, undecided } = candidate.notification
  if (undecided !== true && fallback === undefined) {
    candidate.verdict = verdict
    return
  }
  const patch = {
    ...(undecided === true ? { undecided: false } : {}),
    ...(fallback && { channel: fallback.channel, requestedChannel: requestedChannel ?? channel }),
    ...verdict.patch,
  }
  candidate.verdict = { ...verdict, patch }
}
