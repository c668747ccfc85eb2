/**
 * The limiter's state in this process: a cache of facts from the store. A subject is filled from the record on the
 * first touch, and forgotten again when many others were touched since, so what waits costs disk and not memory.
 */
import { createLimits, entriesOf, memoryStore } from '@sluice/limits'
import { RulesReplaced } from '../../errors.ts'
import type { PlanLate } from '../../ports/limiter.ts'
import type { RecoveredSubject } from '../../ports/recovered-subject.ts'
import type { Clock, LimitRequest, LimitState, Reservation, SlotRelease, Subject } from '../../ports.ts'
import { createAdvance, limitedOf } from './advance.ts'
import { BookedInstants } from './booked-instants.ts'
import { createFire } from './fire.ts'
import { canBePacked, holdFingerprint, type KnownSubject, newestEntries } from './known-subject.ts'
import { createNewcomerFloors } from './newcomer-floors.ts'
import { createPackedSubjects } from './packed-subjects.ts'
import { Pauses } from './pauses.ts'
import type { StateQuestion, Wanted } from './state-question.ts'
import { SubjectCache } from './subject-cache.ts'
import { createSubjectEntries } from './subject-entries.ts'

export interface MemoryStateOptions {
  readonly clock: Clock
  /** Every window is kept this much longer, for what happens on the way to the provider. */
  readonly marginMs: number
  /** Answers at once where it need not ask. With very many who wait `onSoon` is given the first of them, once and later. */
  readonly recover: (
    subject: Subject,
    onSoon: (part: RecoveredSubject) => void,
  ) => RecoveredSubject | Promise<RecoveredSubject>
  /** A subject was filled whose facts are outdated. It is paused: the callee resumes it. */
  readonly onOutdated?: (subject: Subject) => void
  /** Plans a subject again whose limits refused notifications that were late. @defaultValue nothing is planned */
  readonly planLate?: PlanLate
  /**
   * Subjects kept in the form of the limiter, 1.5 kB each with a few windows; a few more while all of them are in use.
   * Of those that were touched longer ago `packedMax` characters are kept. One that was forgotten costs a question
   * to the store when it is touched again.
   *
   * @defaultValue 25_000
   */
  readonly subjectsMax?: number
  /**
   * Characters of the packed form of subjects that have nothing booked, some 300 a subject.
   *
   * @defaultValue 24_000_000
   */
  readonly packedMax?: number
}

/** A subject on its way from the record. */
interface Loading {
  readonly all: Promise<void>
  /** Resolves when the first of those who wait are there, or all; undefined from then on: the others wait for all. */
  soon: Promise<void> | undefined
}

/**
 * As long as the longest window of a policy: what is filled in once must do for a policy that is changed later. The
 * hand bounds how many subjects there are.
 */
const retentionMs = 31 * 86_400_000
/**
 * From its firing to the call a notification waits for others of its batch, whose subjects may have to be read: ms. Then
 * the ledger knows of the call.
 */
const handedOverMs = 10_000

const hasRules = (request: object): boolean => 'rules' in request

export function createMemoryState(options: MemoryStateOptions): LimitState {
  const { clock, recover } = options
  const { subjectsMax = 25_000, packedMax = 24_000_000 } = options
  const store = memoryStore({ now: () => clock.now(), retentionMs })
  const limits = createLimits({ store, marginMs: options.marginMs }).sync
  let packed = createPackedSubjects(packedMax)
  const subjects = new SubjectCache<KnownSubject>(subjectsMax, mayForget, forget)
  const loading = new Map<string, Loading>()
  const pauses = new Pauses()
  let generation = 0
  const floors = createNewcomerFloors(limits, clock)

  /** @param soonFor - an id for which a part of the subject will do, where it is of those that were read first */
  function known(key: string, soonFor?: string): KnownSubject | undefined {
    const found = subjects.get(key)
    if (found === undefined || found.generation !== generation) return undefined
    if (found.before !== undefined && !(soonFor !== undefined && soonFor < found.before)) return undefined
    found.touched = true
    return found
  }

  function remember(subject: Subject, facts: RecoveredSubject): void {
    const { key } = subject
    subjects.makeRoom()
    const before = subjects.get(key)
    const entries =
      before === undefined ? facts.entries : newestEntries(entriesOf(store.sync, key), facts.entries)
    if (before !== undefined) limits.forget(key)
    if (entries.length > 0) limits.restore(key, entries)
    const now = clock.now()
    const ahead = entries.filter(({ fired, at }) => !fired && at > now)
    const booked = ahead.length === 0 ? undefined : new BookedInstants(ahead.map(({ id, at }) => [id, at]))
    let fingerprints = before?.fingerprints
    if (facts.fingerprints.length > 0) fingerprints ??= new Map()
    for (const { fingerprint, id, at } of facts.fingerprints) fingerprints!.set(fingerprint, { id, at })
    const waitlist = facts.waitlist.length === 0 ? undefined : new Set(facts.waitlist)
    subjects.set(key, { generation, fingerprints, booked, waitlist, touched: true, before: facts.before })
    // A pass that began with the first who wait alone holds newcomers behind the others, too.
    if (before?.before !== undefined) for (const { at } of ahead) floors.raise(key, at)
    const isAwaited = booked !== undefined || waitlist !== undefined
    // The turn in which the first move up waits for the others, too.
    const isReported =
      before?.before !== undefined && before.booked !== undefined && before.generation === generation
    if (facts.isOutdated !== true || !isAwaited || isReported || options.onOutdated === undefined) return
    pauses.pause(key)
    options.onOutdated(subject)
  }

  /** Pauses those of the subjects in which somebody waits, each once, and answers them. */
  function pauseBusy(of: readonly { readonly subject: Subject; readonly id: string }[]): readonly Subject[] {
    const now = clock.now()
    const busy = new Map<string, Subject>()
    for (const { subject, id } of of) if (isAwaited(subject.key, id, now)) busy.set(subject.key, subject)
    for (const key of busy.keys()) pauses.pause(key)
    return [...busy.values()]
  }

  /** True if other ids than this one wait in the subject. */
  function isAwaited(key: string, own: string, now: number): boolean {
    const { booked, waitlist } = subjects.get(key) ?? {}
    if (waitlist !== undefined && waitlist.size > (waitlist.has(own) ? 1 : 0)) return true
    return booked?.hasOther(own, now) === true
  }

  /** True if entries of the subject are in memory, or on their way there. */
  const isFilled = (key: string): boolean =>
    subjects.get(key) !== undefined || loading.has(key) || packed.has(key)

  const force: LimitState['force'] = async (requests) => {
    await each(requests, ({ subject, id, rules, at = 0 }) => {
      limits.force(subject.key, id, rules)
      if (at > clock.now()) {
        limits.cancel(subject.key, id)
        limits.restore(subject.key, [{ id, at, fired: true, streams: rules.map(({ stream }) => stream) }])
      }
      note(subject, id, undefined)
    })
  }

  function delist({ key }: Subject, id: string): void {
    const subject = subjects.get(key)
    if (subject?.waitlist?.delete(id) === true && subject.waitlist.size === 0) subject.waitlist = undefined
  }

  /** Notes where an id stands in a subject now; nowhere, or not ahead any more, where there is no instant. */
  function note({ key }: Subject, id: string, at: number | undefined): void {
    const subject = subjects.get(key)
    if (subject === undefined) return
    const now = clock.now()
    if (at !== undefined && at > now && at < Number.POSITIVE_INFINITY) {
      subject.booked ??= new BookedInstants()
      subject.booked.set(id, at, now)
    } else if (subject.booked?.delete(id) === true && subject.booked.size === 0) subject.booked = undefined
  }

  const isFired = (key: string, id: string): boolean =>
    entriesOf(store.sync, key).some((entry) => entry.id === id && entry.fired)

  /** False where a notification was fired a moment ago: its call is not known to the record, which would say that it waits. */
  function mayForget(key: string, subject: KnownSubject): boolean {
    const since = clock.now() - handedOverMs
    return (
      canBePacked(subject, generation) ||
      entriesOf(store.sync, key).every(({ fired, at }) => !fired || at < since)
    )
  }

  function forget(key: string, subject: KnownSubject): void {
    if (canBePacked(subject, generation)) packed.put(key, entriesOf(store.sync, key), subject.fingerprints)
    limits.forget(key)
  }

  /** Undefined when all are known, and open to newcomers where it is for these, so that nothing waits that need not. */
  function ready(
    requests: readonly StateQuestion[],
    { areNew = false, isSoonEnough = false }: Wanted,
  ): Promise<unknown> | undefined {
    let waits: Promise<void>[] | undefined
    for (const { subject, waited, id = '' } of requests) {
      const { key } = subject
      const soonFor = isSoonEnough ? id : undefined
      const load = known(key, soonFor) === undefined ? (loading.get(key) ?? begin(subject)) : undefined
      let wait = isSoonEnough ? (load?.soon ?? load?.all) : load?.all
      if (areNew && wait === undefined && pauses.size > 0 && waited !== true) wait = pauses.over(key)
      if (wait === undefined) continue
      waits ??= []
      waits.push(wait)
    }
    return waits === undefined ? undefined : Promise.all(waits)
  }

  /** Begins to fill a subject; undefined where it is filled at once. */
  function begin(subject: Subject): Loading | undefined {
    const { key } = subject
    const begun = generation
    const part = Promise.withResolvers<void>()
    let isPinned = false
    const facts =
      packed.take(key) ??
      recover(subject, (soon) => {
        loading.get(key)!.soon = undefined
        part.resolve()
        if (begun !== generation) return
        // A new instant is known here alone until the rest is read.
        if (!isPinned) subjects.pin([{ subject }])
        isPinned = true
        remember(subject, soon)
      })
    if (!(facts instanceof Promise)) {
      remember(subject, facts)
      return undefined
    }
    // Facts that were read under other rules are dropped and read again: `ready` finds the subject unknown.
    const all = facts
      .then((read) => (begun === generation ? remember(subject, read) : undefined))
      .finally(() => {
        loading.delete(key)
        if (isPinned) subjects.unpin([{ subject }])
      })
    const soon = Promise.race([part.promise, all])
    // A failure is told to those who wait.
    soon.catch(() => undefined)
    const filling = { all, soon }
    loading.set(key, filling)
    return filling
  }

  async function each<Request extends StateQuestion, Answer>(
    requests: readonly Request[],
    one: (request: Request) => Answer,
    wanted: Wanted = {},
  ): Promise<readonly Answer[]> {
    const { areNew = false, isSoonEnough = false } = wanted
    // Nearly always all of them are known, and nothing is waited for.
    const isKnown = ({ subject, id = '' }: Request): boolean =>
      known(subject.key, isSoonEnough ? id : undefined) !== undefined
    if (requests.every(isKnown) && !(areNew && pauses.size > 0)) return requests.map(one)
    const begun = generation
    subjects.pin(requests)
    try {
      // Once more after each wait: what was paused meanwhile, or forgotten, is not what was waited for.
      for (let wait = ready(requests, wanted); wait !== undefined; wait = ready(requests, wanted)) {
        await wait
        if (begun !== generation && requests.some(hasRules)) throw new RulesReplaced()
      }
      return requests.map(one)
    } finally {
      subjects.unpin(requests)
    }
  }

  function reserve(request: LimitRequest): Reservation {
    const { subject, id } = request
    const reservation = floors.reserve(request, id)
    if (!reservation.held) return reservation
    if (reservation.at > clock.now() || request.inTurn === true) note(subject, id, reservation.at)
    if (known(subject.key)?.waitlist !== undefined) delist(subject, id)
    return reservation
  }

  const placeOf = ({ key }: Subject, id: string): number | undefined => subjects.get(key)?.booked?.get(id)
  const isMovingUp = (key: string): boolean => floors.has(key) || pauses.over(key) !== undefined
  const advance = createAdvance({ limits, clock, placeOf, note, pauseBusy, isMovingUp })
  const entries = createSubjectEntries({
    limits,
    store,
    isKnown: (key) => known(key) !== undefined,
    note,
    each,
    pauseBusy,
  })
  const firing = createFire({
    limits,
    clock,
    each,
    placeOf,
    note,
    pauseBusy,
    isShared: entries.isShared,
    pauses,
    entries,
    generation: () => generation,
    planLate: options.planLate,
  })

  return {
    reserve: (requests) => each(requests, reserve, { areNew: true }),
    preview: (requests) => each(requests, preview, { areNew: true }),
    ...firing,
    reservedAt: entries.reservedAt,
    force,
    recount: (requests) => force(requests.filter(({ subject: { key } }) => isFilled(key))),
    async cancel(requests) {
      const paused = new Map<string, Subject>()
      await each(requests, (request) => {
        const { subject, id } = request
        if (wasFired(request)) return
        limits.cancel(subject.key, id)
        note(subject, id, undefined)
        delist(subject, id)
        // The pause begins in the step that frees the place: an await between the two lets a newcomer take it.
        if (paused.has(subject.key)) return
        for (const busy of pauseBusy([request])) paused.set(busy.key, busy)
      })
      return [...paused.values()]
    },
    async enlist(requests) {
      await each(requests, ({ subject: { key }, id }) => {
        const subject = known(key)!
        subject.waitlist ??= new Set()
        subject.waitlist.add(id)
      })
    },
    async delist(requests) {
      for (const { subject, id } of requests) delist(subject, id)
    },
    pause: async (of) => pauses.pauseAll(of),
    resume: async (of) => pauses.resumeAll(of),
    async queueBehind({ key }, ids) {
      const booked = subjects.get(key)?.booked
      let floor = Number.NEGATIVE_INFINITY
      for (const id of ids) floor = Math.max(floor, booked?.get(id) ?? floor)
      return floors.set(key, floor) && ids.every((id) => (booked?.get(id) ?? 0) > clock.now())
    },
    async waiting(asked, { first: isSoonEnough = false } = {}) {
      const [ids] = await each([{ subject: asked }], ({ subject }) => idsOf(subject), { isSoonEnough })
      return ids!
    },
    async advance(requests, { isNewcomer = false } = {}) {
      const limited = limitedOf(requests)
      const last = limited.at(-1)
      // All of them are known in the step in which the last one is.
      const advanceLast = (one: LimitRequest) => (one === last ? advance(requests, isNewcomer) : undefined)
      return (await each(limited, advanceLast, { isSoonEnough: true })).at(-1)
    },
    holdFingerprints: (requests) =>
      each(requests, (request) => {
        const subject = known(request.subject.key)!
        subject.fingerprints ??= new Map()
        return holdFingerprint(subject.fingerprints, request, clock.now())
      }),
    async fingerprintHolder({ subject, fingerprint }) {
      const [held] = await each([{ subject }], () => known(subject.key)!.fingerprints?.get(fingerprint))
      return held && { id: held.id, since: held.at }
    },
    async releaseFingerprints(requests) {
      await each(requests, ({ subject, fingerprint, id }) => {
        const { fingerprints } = known(subject.key)!
        if (fingerprints?.get(fingerprint)?.id === id) fingerprints.delete(fingerprint)
      })
    },
    renew() {
      generation += 1
      packed = createPackedSubjects(packedMax)
    },
    adopt: (requests, { keepsLater = false } = {}) =>
      each(requests, ({ subject, id, rules, at }) => {
        const isKept = keepsLater && (placeOf(subject, id) ?? 0) >= at
        if (rules.length === 0 || isKept || isFired(subject.key, id)) return false
        limits.cancel(subject.key, id)
        limits.restore(subject.key, [{ id, at, fired: false, streams: rules.map(({ stream }) => stream) }])
        note(subject, id, at)
        return true
      }),
    close: () => Promise.resolve(),
  }

  /** Lists the ids that wait in a subject, in the order of acceptance. */
  function idsOf({ key }: Subject): readonly string[] {
    const now = clock.now()
    const { booked, waitlist, before } = subjects.get(key) ?? {}
    const ids = booked?.ahead(now) ?? []
    for (const id of waitlist ?? []) if (booked?.get(id) === undefined) ids.push(id)
    return (before === undefined ? ids : ids.filter((id) => id < before)).sort()
  }

  /** True if the id was fired later than its caller knows. The limiter answers a known id from what it holds. */
  function wasFired({ subject, id, unlessFired }: SlotRelease): boolean {
    if (unlessFired === undefined) return false
    const { fired, at } = limits.preview(subject.key, unlessFired.rules, { id })
    return fired && at > unlessFired.after
  }

  /** Books and takes back within one turn of the event loop: the answer is that of `reserve`, and nobody sees it. */
  function preview(request: LimitRequest) {
    const id = `preview:${request.id}`
    const reservation = floors.reserve(request, id)
    limits.cancel(request.subject.key, id)
    return reservation
  }
}
