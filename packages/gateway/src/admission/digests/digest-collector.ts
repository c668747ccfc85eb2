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
interface OverLimit {
  readonly limit: string
  readonly reservation: Reservation
}

export interface DigestCollector {
  /** Returns the digest that collects a candidate independent of limits, if any. */
  specFor(candidate: Candidate): DigestSpec | undefined
  /**
   * Puts a candidate into the digest. One with a later `sendAt` waits for it outside, and joins then. Returns a promise
   * only where the digest is looked up in the store, or is being closed.
   */
  collect(
    candidate: Candidate,
    spec: DigestSpec,
    evaluation: Evaluation,
    over?: OverLimit,
  ): Promise<void> | undefined
}

export function createDigestCollector({ policy, digests }: DigestCollectorOptions): DigestCollector {
  /** Sets the verdict of a candidate that waits in a digest. `joined` is absent in a preview, which joins none. */
  function setVerdict(
    candidate: Candidate,
    closesAt: number,
    { policyVersion }: Evaluation,
    over: OverLimit | undefined,
    joined?: JoinedDigest,
  ): void {
    candidate.verdict = {
      status: 'digesting',
      dueAt: closesAt,
      decision: {
        outcome: 'digest',
        reason: 'digest',
        ...(over === undefined ? {} : { limit: over.limit }),
        at: closesAt,
        policyVersion,
        rules: over === undefined ? [] : ruleReports(over.reservation),
      },
      ...(candidate.notification.undecided === true ? { patch: { undecided: false } } : {}),
      ...(joined === undefined ? {} : { digest: joined }),
      reserved: false,
    }
  }

  return {
    specFor: ({ notification }) =>
      notification.single === true ? undefined : policy.digestFor(notification),
    collect(candidate, spec, evaluation, over) {
      const { now, policyVersion, undo } = evaluation
      const { notification } = candidate
      const sendAt = notification.sendAt ?? now
      if (sendAt > now) {
        candidate.verdict = undecidedVerdict(policyVersion, sendAt, 'send_at')
        return undefined
      }
      const { windowMs } = spec
      if (undo === undefined) {
        setVerdict(candidate, now + windowMs, evaluation, over)
        return undefined
      }
      // A digest that is held up by other items closes for this one after one window, unless the limits of this one hold
      // it up for longer.
      const closesBy = Math.max(now + windowMs, over?.reservation.at ?? 0)
      const follow = (joined: JoinedDigest): void =>
        setVerdict(candidate, joined.digest.closesAt, evaluation, over, joined)
      const joined = digests.join(notification, spec.name, { now, windowMs, closesBy, undo })
      return joined instanceof Promise ? joined.then(follow) : void follow(joined)
    },
  }
}
