/** Deduplication: only the first of equal notifications to one recipient within the window is sent. */
import { encodingOf, joinedPayload } from '../content.ts'
import { digest, partOf } from '../content-digest.ts'
import type { Content, Draft, JsonObject, Notification } from '../model.ts'
import { canonical } from '../policy/canonical.ts'
import type { Policy } from '../policy/policy.ts'
import type { Clock, FingerprintHold, LimitState, Store } from '../ports.ts'
import type { RecipientLimiter } from '../stages.ts'
import { type Candidate, type Evaluation, suppressed } from './candidate.ts'

// ---- suppressing

export interface DuplicatesOptions {
  readonly policy: Policy
  readonly state: Pick<
    LimitState,
    'holdFingerprints' | 'fingerprintHolder' | 'releaseFingerprints' | 'mayKeepHolds'
  >
  readonly limiter: Pick<RecipientLimiter, 'takeBack'>
  readonly store: Pick<Store, 'notification'>
  readonly clock: Pick<Clock, 'now' | 'at'>
}

/**
 * A fingerprint that is held for so long by a notification that is not on record is nobody's, ms. Longer than the silence
 * after which a process is declared dead (12 to 14 s): one that stood still between this and its commit may commit before
 * (decision 0042).
 */
export const orphanedMs = 15_000
/**
 * A try that took longer than this does not commit, ms, but begins anew: its fingerprints may be another's soon. With the
 * 5 s that a statement may take it lies below `orphanedMs`. A batch on a busy machine takes seconds.
 */
export const heldMsMax = 8_000
/**
 * Between two looks for the notification on record, ms: twice as long each time. A killed gateway may have begun a thousand,
 * which wait beside each other when they come again.
 */
const lookMsMin = 50
const lookMsMax = 1_000

export interface Duplicates {
  /** Suppresses duplicates; returns the candidates that took their fingerprint, none in a preview. */
  suppress(candidates: readonly Candidate[], evaluation: Evaluation): Promise<readonly Candidate[]>
  /**
   * Releases the fingerprints of candidates that are suppressed for another reason: they are no first. One that is on record
   * already keeps it until the end of the try.
   */
  releaseSuppressed(taken: readonly Candidate[], evaluation: Evaluation): Promise<void>
}

/** A try to take the fingerprints of several notifications, `own` by their ids. */
interface Try {
  readonly own: ReadonlySet<string>
  hasFailed: boolean
}

/** Builds the fingerprint hold of a notification, which makes equal ones within the window duplicates. */
export function fingerprintHoldOf(policy: Policy, notification: Notification, windowMs = 0): FingerprintHold {
  const { subject } = policy.rulesFor(notification).at(-1)!
  return { subject, fingerprint: notification.fingerprint, id: notification.id, windowMs }
}

/**
 * A cancelled, failed or suppressed notification is not a first (contract, Deduplication); a critical one passes
 * deduplication, and takes no fingerprint.
 */
export function countsAsFirst({ status, priority }: Pick<Notification, 'status' | 'priority'>): boolean {
  return priority !== 'critical' && status !== 'cancelled' && status !== 'failed' && status !== 'suppressed'
}

export function createDuplicates({ policy, state, limiter, store, clock }: DuplicatesOptions): Duplicates {
  /**
   * Takes a fingerprint that another notification holds if that was never accepted, or is no first any more; false where it
   * is one on record. Its process may have died before the commit, and what it did not accept comes again: from Kafka, or
   * from a client; or after the commit that ended it, before it gave back what that notification held. The place of the
   * limits that it has reserved is free then.
   */
  async function takeOrphaned(
    { notification, recipient }: Candidate,
    hold: FingerprintHold,
    current: Try,
  ): Promise<boolean> {
    for (let lookMs = lookMsMin; ; lookMs = Math.min(2 * lookMs, lookMsMax)) {
      const holder = await state.fingerprintHolder(hold)
      if (current.hasFailed) return false
      if (holder !== undefined) {
        // Two batches may name the same recipients: only the later one waits for the other.
        const { own } = current
        if (own.has(holder.id) || (holder.id > hold.id && own.size > 1)) return false
        const accepted = await store.notification(hold.subject.tenant, holder.id)
        if (accepted !== undefined && countsAsFirst(accepted)) return false
        const leftMs = holder.since + orphanedMs - clock.now()
        if (accepted === undefined && leftMs > 0) {
          const at = clock.now() + Math.min(lookMs, leftMs)
          await new Promise<void>((resolve) => clock.at(at, resolve))
          continue
        }
      }
      const inPlaceOf = holder === undefined ? {} : { inPlaceOf: holder.id }
      const [isHeld] = await state.holdFingerprints([{ ...hold, ...inPlaceOf }])
      if (isHeld !== true) continue
      if (holder !== undefined)
        await limiter.takeBack([{ notification: { ...notification, id: holder.id }, recipient }])
      return true
    }
  }

  /** Where one of them fails the others end, and are waited for: the caller releases what was taken until then. */
  async function takeAllOrphaned(
    candidates: readonly Candidate[],
    holds: readonly FingerprintHold[],
    isHeld: readonly boolean[],
  ): Promise<readonly boolean[]> {
    const current: Try = { own: new Set(holds.map(({ id }) => id)), hasFailed: false }
    const ends = await Promise.allSettled(
      holds.map(async (hold, index) => {
        try {
          return isHeld[index] === true || (await takeOrphaned(candidates[index]!, hold, current))
        } catch (error) {
          current.hasFailed = true
          throw error
        }
      }),
    )
    return ends.map((end) => {
      if (end.status === 'rejected') throw end.reason
      return end.value
    })
  }

  /**
   * Releases fingerprints that a try has taken. Where it decided notifications that are on record already, another try, or
   * another process, may have decided them meanwhile: those that count as first need theirs.
   */
  async function giveBack(holds: readonly FingerprintHold[], areOnRecord: boolean): Promise<void> {
    if (!areOnRecord) return state.releaseFingerprints(holds)
    for (const hold of holds) {
      const recorded = await store.notification(hold.subject.tenant, hold.id)
      if (recorded === undefined || !countsAsFirst(recorded)) await state.releaseFingerprints([hold])
    }
  }

  return {
    async suppress(candidates, { now, policyVersion, undo, again }) {
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
      undo?.add(() => giveBack(holds, again === false))
      const first = await state.holdFingerprints(
        undo === undefined ? holds.map((hold) => ({ ...hold, dry: true })) : holds,
      )
      // Limits in the memory of this process lose what it does not accept.
      const isMine =
        undo === undefined || state.mayKeepHolds !== true || !first.includes(false)
          ? first
          : await takeAllOrphaned(checked, holds, first)
      const taken: Candidate[] = []
      for (const [index, each] of checked.entries()) {
        if (isMine[index] !== true) each.verdict = suppressed(policyVersion, now, 'duplicate')
        else if (undo !== undefined) taken.push(each)
      }
      return taken
    },
    async releaseSuppressed(taken, { undo, again }) {
      const holds = taken
        .filter((each) => each.verdict?.status === 'suppressed')
        .map((each) => fingerprintHoldOf(policy, each.notification))
      if (holds.length === 0) return
      // Before the commit this process may be one that was declared dead, and the notification another's.
      if (again === false) undo?.always(() => giveBack(holds, true))
      else await state.releaseFingerprints(holds)
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
