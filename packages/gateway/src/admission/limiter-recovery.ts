/**
 * From the record to the limiter's state: which instants a subject's streams held. The streams are found by the
 * policy in force, so a changed policy counts the history that exists.
 */
import type { Limit, RestoredEntry } from '@sluice/limits'
import { awaitsLimits } from '../awaits-limits.ts'
import type { Policy, SubjectRules } from '../policy/policy.ts'
import type { RecoveredSubject } from '../ports/recovered-subject.ts'
import type { Admission, Clock, Page, Store, Subject } from '../ports.ts'
import type { Ledger, Recipients } from '../stages.ts'
import { countsAsFirst } from './duplicates.ts'
import { createOverduePlans, type SubjectInstants } from './overdue.ts'
import type { ForbiddenHours } from './quiet-hours.ts'
import { findOrNobody } from './recipient-cache.ts'
import { refusalId } from './recipient-limiter.ts'
import { createHeldInstants, type HeldInstant } from './slot-plan.ts'

export interface LimiterRecoveryOptions {
  readonly store: Pick<Store, 'counted' | 'mayHave'>
  readonly policy: Policy
  readonly ledger: Pick<Ledger, 'live'>
  readonly recipients: Recipients
  readonly forbiddenHours: Pick<ForbiddenHours, 'forbidden' | 'hasHours'>
  readonly clock: Clock
  /** Every window is kept so much longer than it is written, ms. */
  readonly marginMs: number
  /** True if the process before may have left slots free that no waiting notification was given yet. */
  readonly isUnsettled: () => boolean
  /** Rows of the record that a page examines: some 10 ms of the store and of the event loop. @defaultValue 1_000 */
  readonly pageRows?: number
}

interface ReadOptions {
  readonly within?: { readonly from: number; readonly to: number }
  /** Called after the first page where there are more. */
  readonly afterFirst?: () => Promise<void>
  /** True where no further page is needed. */
  readonly isEnough?: () => boolean
}

const nothing: RecoveredSubject = { entries: [], fingerprints: [], waitlist: [], isOutdated: false }

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

/** Windows are kept longer than they are written by the margin of the limiter, which is below this, ms. */
const windowSlackMs = 60_000
/** A page of those due soon examines so many times more rows, for few of them are decoded: some 10 ms of the store. */
const soonPageFactor = 10
/**
 * Notifications that hold an instant within this time are read before all others, ms; at least those of a window, and
 * the first one.
 */
const soonMs = 60_000
/** Above this many rows nothing is read before. */
const soonMax = 5_000
/** Behind every id. */
const lastId = '\uffff'
/** Notifications due soonest that are kept for a plan of the overdue, which reads the subject again where it needs more. */
const heldMax = 2_000

export function createLimiterRecovery(options: LimiterRecoveryOptions) {
  const { store, policy, ledger, recipients, forbiddenHours, clock, marginMs, isUnsettled } = options
  const { pageRows = 1_000 } = options
  const heldInstant = createHeldInstants(forbiddenHours)

  function entriesOf(admission: Admission, rules: readonly Limit[]): RestoredEntry[] {
    if (isCountedRefusal(admission)) {
      const counting = rules.filter((rule) => rule.countRefused).map((rule) => rule.stream)
      if (counting.length === 0) return []
      return [{ id: refusalId(admission.id), at: admission.dueAt, fired: true, streams: counting }]
    }
    const streams = streamsOf(rules)
    if (streams.length === 0) return []
    const entries: RestoredEntry[] = []
    // It may have been sent then: that counts besides what is still to come.
    const { suspects = [] } = admission
    for (const [index, at] of suspects.entries()) {
      entries.push({ id: `${admission.id}?${index}`, at, fired: true, streams })
    }
    // One that is decided when it is due holds no instant; a dead letter that came back may have been sent before.
    if (admission.undecided === true) return entries
    const { firedAt } = admission
    if (firedAt !== undefined && !suspects.includes(firedAt))
      entries.push({ id: admission.id, at: firedAt, fired: true, streams })
    else if (admission.status === 'queued' || admission.status === 'scheduled') {
      entries.push({ id: admission.id, at: admission.dueAt, fired: false, streams })
    }
    return entries
  }

  /** Returns the limits of the subject among all of a notification. */
  function rulesIn(all: readonly SubjectRules[], { key }: Subject): readonly Limit[] {
    const own = all.filter(({ subject }) => subject.key === key)
    return own.length === 1 ? own[0]!.rules : own.flatMap(({ rules }) => rules)
  }
  /**
   * The admission with the instant of the call under way. The right to send of this process alone does not count: limits
   * come after it. One that the record shows as `sending` counts as sent now: a process that shares the record and the
   * limiter's state may have fired it, and the state may have lost that.
   */
  function handedOver(admission: Admission): Admission {
    const last = ledger.live(admission.id)?.events.at(-1)
    if (last?.status === 'sending') return { ...admission, firedAt: last.at }
    return admission.status === 'sending' ? { ...admission, firedAt: clock.now() } : admission
  }

  /** True if another process has the right to send it, and may have fired it. */
  const isBegunElsewhere = ({ id, status }: Admission): boolean =>
    status === 'sending' && ledger.live(id)?.events.at(-1)?.status !== 'sending'

  /** Reads the instants of a subject, as a plan of the overdue needs them. */
  async function readInstants(subject: Subject): Promise<SubjectInstants> {
    const fired: RestoredEntry[] = []
    const held: HeldInstant[] = []
    await readPages(subject, async (admission) => {
      const recipient = await findOrNobody(recipients, admission.tenant, admission.to.id)
      const all = policy.rulesFor(admission, recipient)
      for (const entry of entriesOf(admission, rulesIn(all, subject)))
        if (entry.fired) fired.push(entry)
        else held.push(heldInstant(admission, all, recipient))
    })
    return { fired, held, until: Number.POSITIVE_INFINITY }
  }

  const reachMs = (): number => policy.longestWindowMs + windowSlackMs
  const overduePlans = createOverduePlans({ read: readInstants, reachMs, clock, marginMs })

  const dedupMsOf = ({ recipient }: Subject): number =>
    recipient === undefined ? 0 : (policy.deduplicationWindowMs ?? 0)

  /** Reads all pages, for none may be left out: a limit would not count it, and newcomers would overtake it. */
  async function readPages(
    subject: Subject,
    take: (admission: Admission) => Promise<void>,
    { within, afterFirst, isEnough }: ReadOptions = {},
  ): Promise<void> {
    const { tenant, recipient } = subject
    const since = clock.now() - Math.max(reachMs(), dedupMsOf(subject))
    async function pageAfter(cursor?: string): Promise<Page<Admission>> {
      const { items, nextCursor } = await store.counted({
        tenant,
        ...(recipient === undefined ? {} : { recipient }),
        since,
        limit: within === undefined ? pageRows : soonPageFactor * pageRows,
        ...(within === undefined ? {} : { within }),
        ...(cursor === undefined ? {} : { cursor }),
      })
      // In the step in which the page is here: a call that is settled later is in memory no more, and not in this page.
      return { items: items.map(handedOver), nextCursor }
    }

    for (let next: Promise<Page<Admission>> | undefined = pageAfter(); next !== undefined; ) {
      const { items, nextCursor }: Page<Admission> = await next
      // The store reads one page while the page before is taken.
      next = nextCursor === null ? undefined : pageAfter(nextCursor)
      // It is awaited later.
      next?.catch(() => undefined)
      for (const admission of items) await take(admission)
      if (isEnough?.() === true) return
      if (next !== undefined) await afterFirst?.()
      afterFirst = undefined
    }
  }

  /** Collects the facts of a subject from its admissions. */
  function createCollector(subject: Subject, now: number) {
    const dedupMs = dedupMsOf(subject)
    const countedSince = now - reachMs()
    const entries: RestoredEntry[] = []
    const prints: Record<'left' | 'decided' | 'undecided', RecoveredSubject['fingerprints'][number][]> = {
      left: [],
      decided: [],
      undecided: [],
    }
    const held: HeldInstant[] = []
    let heldUntil = now + 2 * reachMs()
    const waitlist = new Set<string>()
    const begun: string[] = []
    let isOutdated = false

    return {
      waitlist,
      get isOutdated() {
        return isOutdated
      },
      /** Returns the instants that a plan of the overdue needs; all that are due until `until`, epoch ms. */
      near: (until = heldUntil): SubjectInstants => ({
        fired: entries.filter(({ fired }) => fired),
        held,
        until: Math.min(until, heldUntil),
      }),
      async take(admission: Admission): Promise<void> {
        const { id, status, policyVersion, createdAt, fingerprint, firedAt } = admission
        const recorded = await findOrNobody(recipients, admission.tenant, admission.to.id)
        const all = policy.rulesFor(admission, recorded)
        const rules = rulesIn(all, subject)
        for (const entry of entriesOf(admission, rules)) {
          if (!entry.fired && entry.at < heldUntil) held.push(heldInstant(admission, all, recorded))
          if (!entry.fired || entry.at >= countedSince) entries.push(entry)
        }
        if (isBegunElsewhere(admission)) begun.push(id)
        if (held.length > heldMax) {
          held.length = 0
          heldUntil = Number.NEGATIVE_INFINITY
        }
        const waiter = waiterOf(admission)
        if (waiter !== undefined && !waitlist.has(waiter) && rules.length > 0) waitlist.add(waiter)
        if (status === 'scheduled' && (policyVersion !== policy.version || isUnsettled())) isOutdated = true
        if (createdAt <= now - dedupMs || !countsAsFirst(admission)) return
        // One that was accepted while the limits could not be asked takes its fingerprint when it is decided: it may be
        // another's by then.
        const kind = firedAt !== undefined ? 'left' : awaitsLimits(admission) ? 'undecided' : 'decided'
        prints[kind].push({ fingerprint, id, at: createdAt })
      },
      /** @param places - planned instants of the overdue */
      facts(places: ReadonlyMap<string, number>): RecoveredSubject {
        return {
          entries: places.size === 0 ? entries : entries.map((entry) => movedTo(entry, places.get(entry.id))),
          // Where several have one fingerprint, one that has left keeps it, else one that is decided; of these the first, which
          // is the last to be set.
          fingerprints: [...prints.left, ...prints.decided, ...prints.undecided].reverse(),
          waitlist: [...waitlist],
          begun,
          isOutdated: isOutdated || waitlist.size > 0 || places.size > 0,
        }
      },
      entries,
    }
  }

  /**
   * Reads those who wait and hold an instant soon, and all that counts for them. With very many who wait the first of them
   * move up before the others are read. Undefined where nobody could move up, or too many rows count.
   * @param first - the entries of the first page
   */
  async function readSoon(
    subject: Subject,
    first: readonly RestoredEntry[],
  ): Promise<RecoveredSubject | undefined> {
    const now = clock.now()
    const reach = reachMs()
    const held = first.filter(({ fired }) => !fired).map(({ at }) => at)
    // An instant up to here depends on nothing that is later than what is read.
    const exactUntil = Math.max(now + Math.max(reach, soonMs), held.length === 0 ? now : Math.min(...held))
    const within = { from: now - reach, to: exactUntil + reach }
    const collector = createCollector(subject, now)
    let before = lastId
    let taken = 0
    async function take(admission: Admission): Promise<void> {
      taken += 1
      if (admission.dueAt > exactUntil && waitsFor(admission) && admission.id < before) before = admission.id
      await collector.take(admission)
    }
    await readPages(subject, take, { within, isEnough: () => taken > soonMax })
    if (taken > soonMax || !collector.isOutdated) return undefined
    for (const waiter of collector.waitlist) if (waiter < before) before = waiter
    const places = await overduePlans.soonPlacesOf(subject, collector.entries, collector.near(within.to))
    if (places === undefined || [...places.values()].some((at) => at > exactUntil)) return undefined
    return { ...collector.facts(places), before }
  }

  /**
   * Reads the facts of a subject. What stays in memory is bounded by what waits of the tenant (`waiting`) and what its
   * limits let leave within their windows.
   */
  async function read(
    subject: Subject,
    onSoon?: (facts: RecoveredSubject) => void,
  ): Promise<RecoveredSubject> {
    const collector = createCollector(subject, clock.now())
    async function readSoonFirst(): Promise<void> {
      const soon = await readSoon(subject, collector.entries)
      if (soon !== undefined) onSoon!(soon)
    }
    const isShared = subject.recipient === undefined && onSoon !== undefined
    await readPages(subject, collector.take, isShared ? { afterFirst: readSoonFirst } : {})
    return collector.facts(await overduePlans.placesOf(subject, collector.entries, collector.near))
  }

  /** Answers at once for somebody to whom nothing was ever sent. */
  return (
    subject: Subject,
    onSoon?: (facts: RecoveredSubject) => void,
  ): RecoveredSubject | Promise<RecoveredSubject> => {
    const { tenant, recipient } = subject
    const isNew = recipient !== undefined && !store.mayHave('notifications', tenant, recipient)
    return isNew ? nothing : read(subject, onSoon)
  }
}

const movedTo = (entry: RestoredEntry, at: number | undefined): RestoredEntry =>
  at === undefined || entry.fired ? entry : { ...entry, at }

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

/** True if it waits, for its instant or in a digest. */
const waitsFor = ({ status }: Admission): boolean => status === 'scheduled' || status === 'digesting'

/** One that had been sent and was suppressed later has an earlier `firedAt`. */
function isCountedRefusal({ status, firedAt, dueAt }: Admission): boolean {
  return status === 'suppressed' && firedAt !== undefined && firedAt === dueAt
}
