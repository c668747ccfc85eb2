/**
 * From the record to the limiter's state: which instants a subject's streams held. The streams are found by the
 * policy in force, so a changed policy counts the history that exists.
 */
import type { Limit } from '@sluice/limits'
import type { Recipient } from '../model.ts'
import type { Policy } from '../policy/policy.ts'
import type { Admission, Clock, Page, Store, Subject } from '../ports.ts'
import type { Ledger, Recipients } from '../stages.ts'
import { findOrNobody } from './recipient-cache.ts'
import { refusalId } from './recipient-limiter.ts'

export interface LimiterRecoveryOptions {
  readonly store: Pick<Store, 'counted' | 'mayHave'>
  readonly policy: Policy
  readonly ledger: Pick<Ledger, 'live'>
  readonly recipients: Recipients
  readonly clock: Clock
  /** True if the process before may have left slots free that no waiting notification was given yet. */
  readonly isUnsettled: () => boolean
}

interface Entry {
  readonly id: string
  readonly at: number
  readonly fired: boolean
  readonly streams: readonly string[]
}

interface Facts {
  readonly entries: readonly Entry[]
  /** Fingerprints of what was accepted, with their instants. */
  readonly fingerprints: readonly { readonly fingerprint: string; readonly id: string; readonly at: number }[]
  /** Ids of notifications that wait and hold no instant. */
  readonly waitlist: readonly string[]
  /** Some of those who wait were promised their instants under another policy, or by a process that was killed, or hold none. */
  readonly isOutdated: boolean
}

const nothing: Facts = { entries: [], fingerprints: [], waitlist: [], isOutdated: false }

const streamsByRules = new WeakMap<readonly Limit[], readonly string[]>()

/** Returns the streams of the limits. Notifications of one kind share the limits, and so one array of streams. */
function streamsOf(rules: readonly Limit[]): readonly string[] {
  let streams = streamsByRules.get(rules)
  if (streams === undefined) {
    streams = rules.map((rule) => rule.stream)
    streamsByRules.set(rules, streams)
  }
  return streams
}

/** Rows of the record that a page examines: some 10 ms of the store and of the event loop. */
const pageMax = 1_000
/** Windows are kept longer than they are written by the margin of the limiter, which is below this, ms. */
const windowSlackMs = 60_000

export function createLimiterRecovery(options: LimiterRecoveryOptions) {
  const { store, policy, ledger, recipients, clock, isUnsettled } = options

  function entriesOf(admission: Admission, subject: Subject, recipient: Recipient | null): Entry[] {
    if (admission.undecided === true) return []
    const own = policy.rulesFor(admission, recipient).filter((each) => each.subject.key === subject.key)
    const rules = own.length === 1 ? own[0]!.rules : own.flatMap((each) => each.rules)
    if (isCountedRefusal(admission)) {
      const counting = rules.filter((rule) => rule.countRefused).map((rule) => rule.stream)
      if (counting.length === 0) return []
      return [{ id: refusalId(admission.id), at: admission.dueAt, fired: true, streams: counting }]
    }
    const streams = streamsOf(rules)
    if (streams.length === 0) return []
    const entries: Entry[] = []
    // It may have been sent then: that counts besides what is still to come.
    const { suspects = [] } = admission
    for (const [index, at] of suspects.entries()) {
      entries.push({ id: `${admission.id}?${index}`, at, fired: true, streams })
    }
    // The right to send alone does not count: the limits are asked after it was given.
    const last = ledger.live(admission.id)?.events.at(-1)
    const handedOver = last?.status === 'sending' ? last.at : undefined
    const firedAt = handedOver ?? admission.firedAt
    if (firedAt !== undefined && !suspects.includes(firedAt))
      entries.push({ id: admission.id, at: firedAt, fired: true, streams })
    else if (admission.status === 'queued' || admission.status === 'scheduled') {
      entries.push({ id: admission.id, at: admission.dueAt, fired: false, streams })
    }
    return entries
  }

  const counts = (admission: Admission, subject: Subject, recipient: Recipient | null): boolean =>
    policy
      .rulesFor(admission, recipient)
      .some((each) => each.subject.key === subject.key && each.rules.length > 0)

  /**
   * Reads all pages, for none may be left out: a limit would not count it, and newcomers would overtake it. What stays
   * in memory is bounded by what waits of the tenant (`waiting`) and what its limits let leave within their windows.
   */
  async function read(subject: Subject): Promise<Facts> {
    const now = clock.now()
    const { tenant, recipient } = subject
    const dedupMs = recipient === undefined ? 0 : (policy.deduplicationWindowMs ?? 0)
    const countedSince = now - policy.longestWindowMs - windowSlackMs
    const entries: Entry[] = []
    const fingerprints: Facts['fingerprints'][number][] = []
    const waitlist = new Set<string>()
    let isOutdated = false

    async function take(admission: Admission): Promise<void> {
      const { id, status, policyVersion, createdAt, fingerprint } = admission
      const recorded = await findOrNobody(recipients, admission.tenant, admission.to.id)
      for (const entry of entriesOf(admission, subject, recorded))
        if (!entry.fired || entry.at >= countedSince) entries.push(entry)
      const waiter = waiterOf(admission)
      if (waiter !== undefined && !waitlist.has(waiter) && counts(admission, subject, recorded))
        waitlist.add(waiter)
      if (status === 'scheduled' && (policyVersion !== policy.version || isUnsettled())) isOutdated = true
      if (createdAt > now - dedupMs && countsAsFirst(admission))
        fingerprints.push({ fingerprint, id, at: createdAt })
    }

    const pageAfter = (cursor?: string): Promise<Page<Admission>> =>
      store.counted({
        tenant,
        ...(recipient === undefined ? {} : { recipient }),
        // A tenant's rows are found by their acceptance: a delayed notification may leave as much later as a delay may last.
        since:
          now - Math.max(policy.longestWindowMs, dedupMs) - (recipient === undefined ? policy.maxDelayMs : 0),
        limit: pageMax,
        ...(cursor === undefined ? {} : { cursor }),
      })

    for (let next: Promise<Page<Admission>> | undefined = pageAfter(); next !== undefined; ) {
      const { items, nextCursor }: Page<Admission> = await next
      // The store reads one page while the page before is taken.
      next = nextCursor === null ? undefined : pageAfter(nextCursor)
      // It is awaited later.
      next?.catch(() => undefined)
      for (const admission of items) await take(admission)
    }
    // Where several have one fingerprint the first of them is kept, which is the last to be set.
    fingerprints.reverse()
    return { entries, fingerprints, waitlist: [...waitlist], isOutdated: isOutdated || waitlist.size > 0 }
  }

  /** Answers at once for somebody to whom nothing was ever sent. */
  return (subject: Subject): Facts | Promise<Facts> => {
    const { tenant, recipient } = subject
    const isNew = recipient !== undefined && !store.mayHave('notifications', tenant, recipient)
    return isNew ? nothing : read(subject)
  }
}

/**
 * The digest that an item waits in, or one that is scheduled for its expiry: it would have left only after that. One in
 * a throttle queue waits for its turn there, not for a place of its recipient, also where it expires before.
 */
function waiterOf(admission: Admission): string | undefined {
  const { id, status, undecided, digestId, dueAt, expiresAt, promisedAt } = admission
  if (status === 'digesting') return digestId
  const waitsForExpiry = status === 'scheduled' && undecided === true && dueAt === expiresAt
  return waitsForExpiry && promisedAt === undefined ? id : undefined
}

/** One that had been sent and was suppressed later has an earlier `firedAt`. */
function isCountedRefusal({ status, firedAt, dueAt }: Admission): boolean {
  return status === 'suppressed' && firedAt !== undefined && firedAt === dueAt
}

/**
 * A cancelled, failed or suppressed notification is not a first (contract, Deduplication); a critical one passes
 * deduplication, and takes no fingerprint.
 */
function countsAsFirst({ status, priority }: Admission): boolean {
  return priority !== 'critical' && status !== 'cancelled' && status !== 'failed' && status !== 'suppressed'
}
