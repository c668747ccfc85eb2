/** Deduplication: only the first of equal notifications to one recipient within the window is sent. */
import { encodingOf, joinedPayload } from '../content.ts'
import { digest, partOf } from '../content-digest.ts'
import type { Content, Draft, JsonObject, Notification } from '../model.ts'
import { canonical } from '../policy/canonical.ts'
import type { Policy } from '../policy/policy.ts'
import type { FingerprintHold, LimitState } from '../ports.ts'
import { type Candidate, type Evaluation, suppressed } from './candidate.ts'

// ---- suppressing

export interface DuplicatesOptions {
  readonly policy: Policy
  readonly state: Pick<LimitState, 'holdFingerprints' | 'releaseFingerprints'>
}

export interface Duplicates {
  /** Suppresses duplicates; returns the candidates that took their fingerprint, none in a preview. */
  suppress(candidates: readonly Candidate[], evaluation: Evaluation): Promise<readonly Candidate[]>
  /** Releases the fingerprints of candidates that are suppressed for another reason: they are no first. */
  releaseSuppressed(claimed: readonly Candidate[]): Promise<void>
}

/** Builds the fingerprint hold of a notification, which makes equal ones within the window duplicates. */
export function fingerprintHoldOf(policy: Policy, notification: Notification, windowMs = 0): FingerprintHold {
  const { subject } = policy.rulesFor(notification).at(-1)!
  return { subject, fingerprint: notification.fingerprint, id: notification.id, windowMs }
}

export function createDuplicates({ policy, state }: DuplicatesOptions): Duplicates {
  return {
    async suppress(candidates, { now, policyVersion, undo }) {
      const windowMs = policy.deduplicationWindowMs
      if (windowMs === undefined) return []
      // A notification in a throttle queue has a verdict already, and takes its fingerprint now all the same.
      const checked = candidates.filter(
        ({ notification, verdict }) =>
          verdict?.status !== 'suppressed' && notification.priority !== 'critical',
      )
      if (checked.length === 0) return []
      const holds = checked.map((each) => fingerprintHoldOf(policy, each.notification, windowMs))
      // A fingerprint is released only where its notification holds it.
      undo?.add(() => state.releaseFingerprints(holds))
      const first = await state.holdFingerprints(
        undo === undefined ? holds.map((hold) => ({ ...hold, dry: true })) : holds,
      )
      const claimed: Candidate[] = []
      for (const [index, each] of checked.entries()) {
        if (first[index] !== true) each.verdict = suppressed(policyVersion, now, 'duplicate')
        else if (undo !== undefined) claimed.push(each)
      }
      return claimed
    },
    async releaseSuppressed(claimed) {
      const suppressed = claimed.filter((each) => each.verdict?.status === 'suppressed')
      if (suppressed.length > 0)
        await state.releaseFingerprints(
          suppressed.map((each) => fingerprintHoldOf(policy, each.notification)),
        )
    },
  }
}

// ---- fingerprints
//
// The fingerprint of a notification: recipient, channel, template, content and data, independent of key order.

/** Remembers the text of the last value: all notifications of a batch share their content. */
function textOnce<T extends Content | JsonObject | null | undefined>(): (value: T) => string {
  let last: { readonly value: T; readonly text: string } | undefined
  return (value) => {
    if (last === undefined || value !== last.value) {
      const known = value === undefined || value === null ? undefined : encodingOf(value)?.canonical
      last = { value, text: known ?? partOf(value) }
    }
    return last.text
  }
}

const contentText = textOnce<Content | undefined>()
const dataText = textOnce<JsonObject | null>()

export function fingerprint(tenant: string, draft: Draft): string {
  const { to, channel, template = null } = draft
  const { content, data = null } = joinedPayload(draft, draft.shared)
  // The canonical text of the whole list, assembled from that of its head and the remembered texts.
  const head = canonical([tenant, to.id, channel, template]).slice(0, -1)
  return digest(`${head},${contentText(content)},${dataText(data)}]`)
}
