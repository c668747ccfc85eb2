/** Puts notifications into digests, by category or because a limit says so: they wait for it to close, without a slot. */
import type { DigestSpec, Policy } from '../../policy/policy.ts'
import type { Reservation } from '../../ports.ts'
import {
  type Candidate,
  type Evaluation,
  type JoinedDigest,
  ruleReports,
  undecidedVerdict,
} from '../candidate.ts'
import type { OpenDigests } from './open-digests.ts'

export interface DigestCollectorOptions {
  readonly policy: Policy
  readonly digests: OpenDigests
}

/** The limit that sends a notification into a digest, and the answer of the limits. */
interface Sending {
  readonly limit: string
  readonly reservation: Reservation
}

export interface DigestCollector {
  /** Returns the digest that collects a candidate independent of limits, if any. */
  specFor(each: Candidate): DigestSpec | undefined
  /**
   * Puts a candidate into the digest. One with a later `sendAt` waits for it outside, and joins then. Returns a promise
   * only where the digest is looked up in the store, or is being closed.
   */
  collect(
    each: Candidate,
    spec: DigestSpec,
    evaluation: Evaluation,
    sending?: Sending,
  ): Promise<void> | undefined
}

export function createDigestCollector({ policy, digests }: DigestCollectorOptions): DigestCollector {
  /** Sets the verdict. `joined` is absent in a preview, which joins no digest. */
  function digesting(
    each: Candidate,
    closesAt: number,
    { policyVersion }: Evaluation,
    sending: Sending | undefined,
    joined?: JoinedDigest,
  ): void {
    each.verdict = {
      status: 'digesting',
      dueAt: closesAt,
      decision: {
        outcome: 'digest',
        reason: 'digest',
        ...(sending === undefined ? {} : { limit: sending.limit }),
        at: closesAt,
        policyVersion,
        rules: sending === undefined ? [] : ruleReports(sending.reservation),
      },
      ...(each.notification.undecided === true ? { patch: { undecided: false } } : {}),
      ...(joined === undefined ? {} : { digest: joined }),
      booked: false,
    }
  }

  return {
    specFor: ({ notification }) =>
      notification.single === true ? undefined : policy.digestFor(notification),
    collect(each, spec, evaluation, sending) {
      const { now, policyVersion, undo } = evaluation
      const { notification } = each
      const sendAt = notification.sendAt ?? now
      if (sendAt > now) {
        each.verdict = undecidedVerdict(policyVersion, sendAt, 'send_at')
        return undefined
      }
      const { windowMs } = spec
      if (undo === undefined) {
        digesting(each, now + windowMs, evaluation, sending)
        return undefined
      }
      // A digest that is held up by other items closes for this one after one window, unless the limits of this one hold
      // it up for longer.
      const closesBy = Math.max(now + windowMs, sending?.reservation.at ?? 0)
      const follow = (joined: JoinedDigest): void =>
        digesting(each, joined.digest.closesAt, evaluation, sending, joined)
      const joined = digests.join(notification, spec.name, { now, windowMs, closesBy, undo })
      return joined instanceof Promise ? joined.then(follow) : void follow(joined)
    },
  }
}
