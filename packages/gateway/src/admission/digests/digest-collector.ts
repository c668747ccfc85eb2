/** Puts notifications into digests, by category or because a limit says so: they wait for it to close, without a slot. */
import type { DigestSpec, Policy } from '../../policy/policy.ts'
import type { Reservation } from '../../ports.ts'
import { type Candidate, type EvaluationMode, ruleReports, undecidedVerdict } from '../candidate.ts'
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
  /** Puts a candidate into the digest. One with a later `sendAt` waits for it outside, and joins then. */
  collect(
    each: Candidate,
    spec: DigestSpec,
    now: number,
    mode: EvaluationMode,
    sending?: Sending,
  ): Promise<void>
}

export function createDigestCollector({ policy, digests }: DigestCollectorOptions): DigestCollector {
  const policyVersion = policy.version

  return {
    specFor: ({ notification }) =>
      notification.single === true ? undefined : policy.digestFor(notification),
    async collect(each, spec, now, mode, sending) {
      const { notification } = each
      const sendAt = notification.sendAt ?? now
      if (sendAt > now) {
        each.verdict = undecidedVerdict(policyVersion, sendAt, 'send_at')
        return
      }
      // A digest that is held up by other items closes for this one after one window, unless the limits of this one hold
      // it up for longer.
      const closesBy = Math.max(now + spec.windowMs, sending?.reservation.at ?? 0)
      const found =
        mode.dry === true
          ? { digest: { closesAt: now + spec.windowMs }, opens: false }
          : await digests.find(notification, spec, now, closesBy)
      each.verdict = {
        status: 'digesting',
        dueAt: found.digest.closesAt,
        decision: {
          outcome: 'digest',
          reason: 'digest',
          ...(sending === undefined ? {} : { limit: sending.limit }),
          at: found.digest.closesAt,
          policyVersion,
          rules: sending === undefined ? [] : ruleReports(sending.reservation),
        },
        ...(notification.undecided === true ? { patch: { undecided: false } } : {}),
        ...('id' in found.digest ? { digest: { digest: found.digest, opens: found.opens } } : {}),
        booked: false,
      }
    },
  }
}
