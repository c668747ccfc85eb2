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
  advance(each: Candidate, now: number): Promise<Verdict | undefined>
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
interface Answer {
  readonly each: Candidate
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
    // An id that got no slot here may hold one that was reserved elsewhere: only after an error all are cancelled.
    const mine = () => reservationRequests.filter((_, index) => answers?.[index]?.held !== false)
    undo.add(async () => limiter.takeBack(await withoutHeld(mine(), isHeldElsewhere)))
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

  /** Sets the verdict; returns a promise only where another call is needed. */
  function follow(answer: Answer, evaluation: Evaluation): Promise<void> | undefined {
    const { now, policyVersion, undo } = evaluation
    const { each, reservationRequest, reservation, fallback } = answer
    const { notification } = reservationRequest
    if (reservation.held) {
      each.verdict = concluded(each, held(answer, policyVersion), fallback)
      return undefined
    }
    const { limit, over } = strongestOf(reservation)
    const follows: Over = reservationRequest.waitOnly === true ? { kind: 'delay' } : over
    switch (follows.kind) {
      case 'drop':
        each.verdict = suppressed(policyVersion, now, 'over_limit', {
          limit,
          rules: ruleReports(reservation),
        })
        return undo === undefined || !policy.countsRefused ? undefined : countRefusal(answer, undo)
      case 'digest':
        return digestCollector.collect(each, policy.digest(follows.digest)!, evaluation, {
          limit,
          reservation,
        })
      case 'fallback':
        return fallback === undefined && notification.requestedChannel === undefined
          ? fallBack(answer, { channel: follows.channel, limit }, evaluation)
          : wait(answer, evaluation)
      case 'delay':
        each.verdict = concluded(each, tooLate(answer, evaluation), fallback)
        return undefined
    }
  }

  /** A refusal that counts is stored with the time of its suppression in `firedAt`. */
  async function countRefusal({ each, reservationRequest, fallback }: Answer, undo: UndoList): Promise<void> {
    undo.add(() => limiter.forgetRefusal(reservationRequest))
    if (!(await limiter.countRefusal(reservationRequest))) return
    const verdict = each.verdict!
    each.verdict = concluded(each, { ...verdict, patch: { firedAt: verdict.dueAt } }, fallback)
  }

  function held({ reservationRequest, reservation, fallback }: Answer, policyVersion: string): Verdict {
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
  async function fallBack({ each, reservation }: Answer, fallback: Fallback, evaluation: Evaluation) {
    const { notification: asked, recipient } = each
    const moved: Candidate = {
      notification: { ...asked, channel: fallback.channel, requestedChannel: asked.channel },
      recipient,
    }
    const refused = ineligibility(each, fallback.channel, evaluation, fallback.limit)
    if (refused !== undefined) {
      each.verdict = concluded(each, behindRules(reservation, refused), fallback)
      return
    }
    const reservationRequest = reservationRequestOf(moved, evaluation)
    const [moving] = await ask([reservationRequest], evaluation)
    await follow({ each: moved, reservationRequest, reservation: moving!, fallback }, evaluation)
    each.verdict = concluded(each, behindRules(reservation, moved.verdict!), fallback)
  }

  /** Delays a candidate that would fall back a second time: it waits for its limits instead. */
  async function wait(answer: Answer, evaluation: Evaluation): Promise<void> {
    const reservationRequest = { ...answer.reservationRequest, waitOnly: true }
    const [reservation] = await ask([reservationRequest], evaluation)
    await follow({ ...answer, reservationRequest, reservation: reservation! }, evaluation)
  }

  /** Handles a time out of bounds: beyond its expiry a notification waits for that, beyond maxDelay it is suppressed. */
  function tooLate({ reservationRequest, reservation }: Answer, { now, policyVersion }: Evaluation): Verdict {
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
      const reservationRequests = candidates.map((each) => reservationRequestOf(each, evaluation))
      const reservations = await ask(reservationRequests, evaluation)
      for (const [index, each] of candidates.entries()) {
        const more = follow(
          { each, reservationRequest: reservationRequests[index]!, reservation: reservations[index]! },
          evaluation,
        )
        if (more !== undefined) await more
      }
    },
    async advance(each, now) {
      const { version } = policy
      const promisedAt = each.notification.dueAt
      const reservationRequest = { ...reservationRequestOf(each, { now, waitOnly: true }), promisedAt }
      const reservation = await limiter.advance(reservationRequest)
      return reservation && held({ each, reservationRequest, reservation }, version)
    },
  }
}

/** Adds the fields that every verdict on an undecided or a moved notification has to write. */
function concluded({ notification }: Candidate, verdict: Verdict, fallback: Fallback | undefined): Verdict {
  const decides = notification.undecided === true
  if (!decides && fallback === undefined) return verdict
  const patch = {
    ...(decides ? { undecided: false } : {}),
    ...(fallback === undefined
      ? {}
      : {
          channel: fallback.channel,
          requestedChannel: notification.requestedChannel ?? notification.channel,
        }),
    ...verdict.patch,
  }
  return { ...verdict, patch }
}
