/** Deduplication: only the first of equal notifications to one recipient within the window is sent. */
import type { Notification } from '../model.ts'
import type { Policy } from '../policy/policy.ts'
import type { FingerprintHold, LimitState } from '../ports.ts'
import { type Candidate, suppressed } from './candidate.ts'

export interface DuplicatesOptions {
  readonly policy: Policy
  readonly state: Pick<LimitState, 'holdFingerprints' | 'releaseFingerprints'>
}

export interface Duplicates {
  /** Suppresses duplicates; returns the candidates that took their fingerprint, none in a dry run. */
  find(candidates: readonly Candidate[], now: number, dry: boolean): Promise<readonly Candidate[]>
  /** Runs after the verdicts: a candidate that is suppressed gives its fingerprint back and is no first. */
  confirm(claimed: readonly Candidate[]): Promise<void>
  /** Releases the fingerprints of candidates. */
  free(candidates: readonly Candidate[]): Promise<void>
}

/** Builds the fingerprint hold of a notification, which makes equal ones within the window duplicates. */
export function fingerprintHoldOf(policy: Policy, notification: Notification, windowMs = 0): FingerprintHold {
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
      // A notification in a throttle queue has a verdict already, and takes its fingerprint now all the same.
      const checked = candidates.filter(
        ({ notification, verdict }) =>
          verdict?.status !== 'suppressed' && notification.priority !== 'critical',
      )
      if (checked.length === 0) return []
      const holds = checked.map((each) => fingerprintHoldOf(policy, each.notification, windowMs))
      const first = await state.holdFingerprints(dry ? holds.map((hold) => ({ ...hold, dry })) : holds)
      const claimed: Candidate[] = []
      for (const [index, each] of checked.entries()) {
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
