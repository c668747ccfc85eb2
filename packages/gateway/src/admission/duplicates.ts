/** Deduplication: of notifications that say the same to the same recipient within the window only the first is sent. */
import type { Notification } from '../model.ts'
import type { Policy } from '../policy/policy.ts'
import type { Claim, LimitState } from '../ports.ts'
import { type Candidate, suppressed } from './candidate.ts'

export interface DuplicatesOptions {
  readonly policy: Policy
  readonly state: Pick<LimitState, 'claim' | 'releaseFingerprints'>
}

export interface Duplicates {
  /** Suppresses what was said before; returns those that took their fingerprint, none of them when it is dry. */
  find(candidates: readonly Candidate[], now: number, dry: boolean): Promise<readonly Candidate[]>
  /** When the verdicts are there: those that are suppressed after all are not a first. */
  confirm(claimed: readonly Candidate[]): Promise<void>
  /** Gives fingerprints back. */
  free(candidates: readonly Candidate[]): Promise<void>
}

/** What a notification takes so that nobody says the same within the window. */
export function fingerprintHoldOf(policy: Policy, notification: Notification, windowMs = 0): Claim {
  const { subject } = policy.rulesFor(notification).at(-1)!
  return { subject, fingerprint: notification.fingerprint, id: notification.id, windowMs }
}

export function createDuplicates({ policy, state }: DuplicatesOptions): Duplicates {
  const windowMs = policy.deduplicationWindowMs

  async function free(candidates: readonly Candidate[]): Promise<void> {
    if (candidates.length > 0)
      await state.releaseFingerprints(candidates.map((each) => fingerprintHoldOf(policy, each.notification)))
  }

  return {
    free,
    async find(candidates, now, dry) {
      if (windowMs === undefined) return []
      // What waits for a tenant or module limit has a verdict, and takes its fingerprint now all the same.
      const reservationRequest = candidates.filter(
        ({ notification, verdict }) =>
          verdict?.status !== 'suppressed' && notification.priority !== 'critical',
      )
      if (reservationRequest.length === 0) return []
      const claims = reservationRequest.map((each) => fingerprintHoldOf(policy, each.notification, windowMs))
      const first = await state.claim(dry ? claims.map((claim) => ({ ...claim, dry })) : claims)
      const claimed: Candidate[] = []
      for (const [index, each] of reservationRequest.entries()) {
        if (first[index] !== true) each.verdict = suppressed(policy.version, now, 'duplicate')
        else if (!dry) claimed.push(each)
      }
      return claimed
    },
    async confirm(claimed) {
      await free(claimed.filter((each) => each.verdict?.status === 'suppressed'))
      for (const each of claimed)
        if (each.verdict?.status !== 'suppressed') each.verdict = { ...each.verdict!, claimed: true }
    },
  }
}
