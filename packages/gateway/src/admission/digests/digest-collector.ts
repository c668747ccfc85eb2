/** Into digests: what a digest takes, or what a limit sends there, waits for it to close instead of an instant of its own. */
import type { DigestSpec, Policy } from '../../policy/policy.ts'
import type { Reservation } from '../../ports.ts'
import { type Candidate, type EvaluationMode, ruleReports, undecidedVerdict } from '../candidate.ts'
import type { OpenDigests } from './open-digests.ts'

export interface DigestCollectorOptions {
  readonly policy: Policy
  readonly digests: OpenDigests
}

/** The limit that sends it into a digest, and what the limits said. */
export interface Sending {
  readonly limit: string
  readonly reservation: Reservation
}

export interface DigestCollector {
  /** The digest that collects a case, whatever its limits say. */
  specFor(each: Candidate): DigestSpec | undefined
  /** Into the digest; one that may not be sent yet waits for that instant outside, and joins then. */
  collect(
    each: Candidate,
    spec: DigestSpec,
    now: number,
    how: EvaluationMode,
    sending?: Sending,
  ): Promise<void>
}

export function createDigestCollector({ policy, digests }: DigestCollectorOptions): DigestCollector {
  const policyVersion = policy.version

  return {
    specFor: ({ notification }) =>
      notification.single === true ? undefined : policy.digestFor(notification),
    async collect(each, spec, now, how, sending) {
      const { notification } = each
      const sendAt = notification.sendAt ?? now
      if (sendAt > now) {
        each.verdict = undecidedVerdict(policyVersion, sendAt, 'send_at')
        return
      }
      // Where a digest is held up by others, it closes for this one when a window is over, unless its own limits hold
      // it up for longer.
      const closesBy = Math.max(now + spec.windowMs, sending?.reservation.at ?? 0)
      const found =
        how.dry === true
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
