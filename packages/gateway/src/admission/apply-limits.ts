/**
 * What the limits and forbidden hours say of a case, and what follows: it holds the instant that all of them admit, or
 * it is dropped, collected, sent over another channel, or waits. All undecided cases are asked for at once, and nearly
 * all of them have their verdict from that answer alone, without waiting for anything more.
 */

import type { Channel, Notification } from '../model.ts'
import { limitName } from '../policy/counter.ts'
import type { Over, Policy } from '../policy/policy.ts'
import type { Clock, Reservation } from '../ports.ts'
import type { RecipientLimiter, ReservationRequest } from '../stages.ts'
import {
  type Candidate,
  type EvaluationMode,
  reservedVerdict,
  ruleReports,
  suppressed,
  undecidedVerdict,
  type Verdict,
} from './candidate.ts'
import type { DigestCollector } from './digests/digest-collector.ts'
import type { EligibilityCheck } from './eligibility.ts'
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
  /** Gives each case its verdict. */
  applyLimits(candidates: readonly Candidate[], now: number, how: EvaluationMode): Promise<void>
  /** The verdict on one that holds an instant, where its limits admit it earlier now. */
  advance(each: Candidate, now: number): Promise<Verdict | undefined>
}

interface CandidateRequest extends ReservationRequest {
  readonly notification: Notification
  readonly notBefore: number
}

/** The channel that carries it instead, and the limit that wanted so. */
interface Fallback {
  readonly channel: Channel
  readonly limit: string
}

/** What a verdict follows from. */
interface Answer {
  readonly each: Candidate
  readonly reservationRequest: CandidateRequest
  readonly reservation: Reservation
  readonly fallback?: Fallback
}

export function createLimitApplication(options: LimitApplicationOptions): LimitApplication {
  const { policy, limiter, forbiddenHours, digestCollector, ineligibility, clock } = options
  const policyVersion = policy.version

  const ask = (
    reservationRequests: readonly CandidateRequest[],
    how: EvaluationMode,
  ): Promise<readonly Reservation[]> =>
    how.dry === true ? limiter.preview(reservationRequests) : limiter.reserve(reservationRequests)

  function reservationRequestOf(
    { notification, recipient }: Candidate,
    now: number,
    how: EvaluationMode,
  ): CandidateRequest {
    const { sendAt = 0, expiresAt = Number.POSITIVE_INFINITY, single } = notification
    const notBefore = Math.max(now, sendAt)
    const horizonMs = Math.max(0, Math.min(policy.maxDelayMs, expiresAt - notBefore - 1))
    const waited = how.waited === true ? { waited: true } : {}
    const reservationRequest = { notification, recipient, notBefore, horizonMs, ...waited }
    return how.patient === true || single === true
      ? { ...reservationRequest, patient: true }
      : reservationRequest
  }

  /** Answers a promise only where more has to be asked. */
  function follow(answer: Answer, now: number, how: EvaluationMode): Promise<void> | undefined {
    const { each, reservationRequest, reservation, fallback } = answer
    const { notification } = reservationRequest
    if (reservation.held) {
      each.verdict = concluded(each, held(answer), fallback)
      return undefined
    }
    const { limit, over } = strongestOf(reservation)
    const follows: Over = reservationRequest.patient === true ? { kind: 'delay' } : over
    switch (follows.kind) {
      case 'drop':
        each.verdict = suppressed(policyVersion, now, 'over_limit', {
          limit,
          rules: ruleReports(reservation),
        })
        return how.dry === true || !policy.countsRefused
          ? undefined
          : countRefusal(each, reservationRequest, fallback)
      case 'digest':
        return digestCollector.collect(each, policy.digest(follows.digest)!, now, how, { limit, reservation })
      case 'fallback':
        return fallback === undefined && notification.requestedChannel === undefined
          ? fallBack(each, { channel: follows.channel, limit }, now, how)
          : wait(answer, now, how)
      case 'delay':
        each.verdict = concluded(each, tooLate(answer, now), fallback)
        return undefined
    }
  }

  /** A refusal that counts is on record with its instant in `firedAt`, which is that of its suppression. */
  async function countRefusal(
    each: Candidate,
    reservationRequest: CandidateRequest,
    fallback: Fallback | undefined,
  ): Promise<void> {
    if (!(await limiter.countRefusal(reservationRequest))) return
    const { dueAt, ...verdict } = each.verdict!
    const refused: Verdict = { ...verdict, dueAt, countsRefusal: true, patch: { firedAt: dueAt } }
    each.verdict = concluded(each, refused, fallback)
  }

  function held({ reservationRequest, reservation, fallback }: Answer): Verdict {
    return reservedVerdict({
      policyVersion,
      // Read again: the limits may have looked at the clock a moment after this decision began.
      now: clock.now(),
      reservation,
      forbiddenHours: forbiddenHoursOf(reservationRequest, reservation),
      ...(fallback === undefined ? {} : { fallback }),
    })
  }

  /** The hours that gave the instant: those that hold now, or those into which a limit had moved it. */
  function forbiddenHoursOf(
    { notification, recipient, notBefore }: CandidateRequest,
    reservation: Reservation,
  ) {
    const { at, firstAt, limit } = reservation
    if (limit !== undefined || at === notBefore) return undefined
    const ended = forbiddenHours.reasonUntil(notification, recipient, at)
    return ended === undefined && firstAt > notBefore
      ? forbiddenHours.reasonAt(notification, recipient, notBefore)
      : ended
  }

  /** What the refusing limits want; where only the hours refuse, nothing but waiting is left. */
  function strongestOf({ refusedBy }: Reservation): { readonly limit: string; readonly over: Over } {
    return refusedBy.length === 0 ? { limit: '', over: { kind: 'delay' } } : policy.strongest(refusedBy)
  }

  /** Decided anew under the limits of the other channel, once. */
  async function fallBack(
    each: Candidate,
    fallback: Fallback,
    now: number,
    how: EvaluationMode,
  ): Promise<void> {
    const { channel, limit } = fallback
    const { notification: asked, recipient } = each
    const moved: Candidate = {
      notification: { ...asked, channel, requestedChannel: asked.channel },
      recipient,
    }
    const refused = ineligibility(each, channel, now, limit)
    if (refused !== undefined) {
      each.verdict = concluded(each, refused, fallback)
      return
    }
    const reservationRequest = reservationRequestOf(moved, now, how)
    const [reservation] = await ask([reservationRequest], how)
    await follow({ each: moved, reservationRequest, reservation: reservation!, fallback }, now, how)
    each.verdict = concluded(each, moved.verdict!, fallback)
  }

  /** A second fallback does not happen: it waits for its limits instead. */
  async function wait(answer: Answer, now: number, how: EvaluationMode): Promise<void> {
    const reservationRequest = { ...answer.reservationRequest, patient: true }
    const [reservation] = await ask([reservationRequest], how)
    await follow({ ...answer, reservationRequest, reservation: reservation! }, now, how)
  }

  /** No instant within bounds: beyond its own expiry it waits for that, beyond maxDelay it is suppressed. */
  function tooLate({ reservationRequest, reservation }: Answer, now: number): Verdict {
    const { notification, notBefore } = reservationRequest
    const { expiresAt = Number.POSITIVE_INFINITY } = notification
    const rules = ruleReports(reservation)
    const { at, limit: mode } = reservation
    if (at !== Number.POSITIVE_INFINITY && at >= expiresAt && expiresAt - notBefore <= policy.maxDelayMs) {
      const verdict = undecidedVerdict(
        policyVersion,
        expiresAt,
        mode === undefined
          ? (forbiddenHoursOf(reservationRequest, reservation) ?? 'quiet_hours')
          : 'recipient_limit',
        {
          at,
          ...(mode === undefined ? {} : { limit: limitName(mode) }),
          rules,
          detail: 'expires before it may leave',
        },
      )
      return { ...verdict, waitlisted: true }
    }
    const limit = mode ?? reservation.refusedBy[0]
    return suppressed(policyVersion, now, 'over_limit', {
      ...(limit === undefined ? {} : { limit: limitName(limit) }),
      rules,
      detail: 'beyond maxDelay',
    })
  }

  return {
    async applyLimits(candidates, now, how) {
      if (candidates.length === 0) return
      const reservationRequests = candidates.map((each) => reservationRequestOf(each, now, how))
      const reservations = await ask(reservationRequests, how)
      for (const [index, each] of candidates.entries()) {
        const more = follow(
          { each, reservationRequest: reservationRequests[index]!, reservation: reservations[index]! },
          now,
          how,
        )
        if (more !== undefined) await more
      }
    },
    async advance(each, now) {
      const reservationRequest = reservationRequestOf(each, now, { patient: true })
      const reservation = await limiter.advance(reservationRequest)
      return reservation === undefined ? undefined : held({ each, reservationRequest, reservation })
    },
  }
}

/** What every verdict on a notification that was undecided or moved to another channel writes besides. */
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
