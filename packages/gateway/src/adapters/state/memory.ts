/**
 * The limiter's state in this process: a cache of facts from the store. A subject is filled from the record on the
 * first touch, and forgotten again when many others were touched since, so what waits costs disk and not memory.
 */
import { createLimits, entriesOf, memoryStore } from '@sluice/limits'
import { RulesReplaced } from '../../errors.ts'
import type {
  Advance,
  Clock,
  LimitRequest,
  LimitState,
  Reservation,
  SlotRelease,
  Subject,
} from '../../ports.ts'
import { type Claims, claim } from './fingerprint-claims.ts'
import { releaseOf, termsOf } from './limit-terms.ts'
import { createNewcomerFloors } from './newcomer-floors.ts'
import { newestEntries } from './newest-entries.ts'
import { createPackedSubjects } from './packed-subjects.ts'
import { Pauses } from './pauses.ts'
import type { RecoveredSubject } from './recovered-subject.ts'
import { SubjectCache } from './subject-cache.ts'

export interface MemoryStateOptions {
  readonly clock: Clock
  /** Every window is kept this much longer, for what happens on the way to the provider. */
  readonly marginMs: number
  /** Answers at once where it need not ask. */
  readonly recover: (subject: Subject) => RecoveredSubject | Promise<RecoveredSubject>
  /** A subject was filled whose facts are outdated. It is paused: the callee resumes it. */
  readonly onOutdated?: (subject: Subject) => void
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

interface Known {
  /** The number of `renew` calls before it was filled: a lower one than now's makes it outdated. */
  generation: number
  claims: Claims | undefined
  /** Reservations that lay in the future when they were made, by id. As many as the limiter holds for the subject. */
  booked: Map<string, number> | undefined
  /** Ids that wait without a reservation: as many as there are on record of the subject. */
  waitlist: Set<string> | undefined
  /** Since the hand came by. */
  touched: boolean
}

/**
 * As long as the longest window of a policy: what is filled in once must do for a policy that is changed later. The
 * hand bounds how many subjects there are.
 */
const retentionMs = 31 * 86_400_000
/**
 * One that its limits let leave within this time leaves no place to others, ms: behind very many, each moment of lateness
 * made all of them be looked at.
 */
const nearMs = 1_000
const hasRules = (request: object): boolean => 'rules' in request

export function createMemoryState(options: MemoryStateOptions): LimitState {
  const { clock, recover } = options
  const { subjectsMax = 25_000, packedMax = 24_000_000 } = options
  const store = memoryStore({ now: () => clock.now(), retentionMs })
  const limits = createLimits({ store, marginMs: options.marginMs }).sync
  let packed = createPackedSubjects(packedMax)
  const subjects = new SubjectCache<Known>(subjectsMax, forget)
  const loading = new Map<string, Promise<void>>()
  const pauses = new Pauses()
  let generation = 0
  const floors = createNewcomerFloors(limits, clock)

  function known(key: string): Known | undefined {
    const found = subjects.get(key)
    if (found === undefined || found.generation !== generation) return undefined
    found.touched = true
    return found
  }

  function remember(subject: Subject, { fingerprints, ...facts }: RecoveredSubject): void {
    const { key } = subject
    subjects.makeRoom()
    const before = subjects.get(key)
    const entries =
      before === undefined ? facts.entries : newestEntries(entriesOf(store.sync, key), facts.entries)
    if (before !== undefined) limits.forget(key)
    if (entries.length > 0) limits.restore(key, entries)
    const now = clock.now()
    const ahead = entries.filter(({ fired, at }) => !fired && at > now)
    const booked = ahead.length === 0 ? undefined : new Map(ahead.map(({ id, at }) => [id, at]))
    let claims = before?.claims
    if (fingerprints.length > 0) claims ??= new Map()
    for (const { fingerprint, id, at } of fingerprints) claims!.set(fingerprint, { id, at })
    const waitlist = facts.waitlist.length === 0 ? undefined : new Set(facts.waitlist)
    subjects.set(key, { generation, claims, booked, waitlist, touched: true })
    const isAwaited = booked !== undefined || waitlist !== undefined
    if (facts.isOutdated !== true || !isAwaited || options.onOutdated === undefined) return
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
    if (booked === undefined) return false
    for (const [id, at] of booked) if (at > now && id !== own) return true
    return false
  }

  /** True if entries of the subject are in memory, or on their way there. */
  const isFilled = (key: string): boolean =>
    subjects.get(key) !== undefined || loading.has(key) || packed.has(key)

  const force: LimitState['force'] = async (requests) => {
    await each(requests, ({ subject, id, rules }) => {
      limits.force(subject.key, id, rules)
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
    if (at !== undefined && at > clock.now() && at < Number.POSITIVE_INFINITY) {
      subject.booked ??= new Map()
      subject.booked.set(id, at)
    } else if (subject.booked?.delete(id) === true && subject.booked.size === 0) subject.booked = undefined
  }

  const isFired = (key: string, id: string): boolean =>
    entriesOf(store.sync, key).some((entry) => entry.id === id && entry.fired)

  function forget(key: string, subject: Known): void {
    const isPlain = subject.booked === undefined && subject.waitlist === undefined
    if (isPlain && subject.generation === generation)
      packed.put(key, entriesOf(store.sync, key), subject.claims)
    limits.forget(key)
  }

  /** Undefined when all are known, and open to newcomers where it is for these, so that nothing waits that need not. */
  function ready(
    requests: readonly { readonly subject: Subject; readonly waited?: boolean }[],
    areNew: boolean,
  ): Promise<unknown> | undefined {
    let waits: Promise<void>[] | undefined
    for (const { subject, waited } of requests) {
      const { key } = subject
      let wait = known(key) === undefined ? (loading.get(key) ?? load(subject)) : undefined
      if (areNew && wait === undefined && pauses.size > 0 && waited !== true) wait = pauses.over(key)
      if (wait === undefined) continue
      waits ??= []
      waits.push(wait)
    }
    return waits === undefined ? undefined : Promise.all(waits)
  }

  function load(subject: Subject): Promise<void> | undefined {
    const { key } = subject
    const begun = generation
    const facts = packed.take(key) ?? recover(subject)
    if (!(facts instanceof Promise)) {
      remember(subject, facts)
      return undefined
    }
    // Facts that were read under other rules are dropped and read again: `ready` finds the subject unknown.
    const wait = facts
      .then((read) => (begun === generation ? remember(subject, read) : undefined))
      .finally(() => loading.delete(key))
    loading.set(key, wait)
    return wait
  }

  async function each<Request extends { readonly subject: Subject }, Answer>(
    requests: readonly Request[],
    one: (request: Request) => Answer,
    areNew = false,
  ): Promise<readonly Answer[]> {
    // Nearly always all of them are known, and nothing is waited for.
    if (requests.every(({ subject }) => known(subject.key) !== undefined) && !(areNew && pauses.size > 0))
      return requests.map(one)
    const begun = generation
    subjects.pin(requests)
    try {
      // Once more after each wait: what was paused meanwhile, or forgotten, is not what was waited for.
      for (let wait = ready(requests, areNew); wait !== undefined; wait = ready(requests, areNew)) {
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
    if (reservation.at > clock.now()) note(subject, id, reservation.at)
    if (known(subject.key)?.waitlist !== undefined) delist(subject, id)
    return reservation
  }

  /**
   * Returns the requests that limits count. Any other is not on record of its subject, which need not be filled: with a
   * limit over all recipients, each who waits has such a subject.
   */
  function limitedOf(all: readonly LimitRequest[]): readonly LimitRequest[] {
    const limited = all.filter(({ rules }) => rules.length > 0)
    return limited.length > 0 ? limited : all
  }

  /** In one turn of the event loop: nobody sees what stands where until all agree. */
  function advance(all: readonly LimitRequest[]): Advance | undefined {
    const requests = limitedOf(all)
    const held = requests.map(({ subject, id }) => subjects.get(subject.key)?.booked?.get(id))
    const from = held[0]
    if (from === undefined || from <= clock.now() || held.some((at) => at !== from)) return undefined
    const isLater = all.some(({ promisedAt = from }) => promisedAt < from)
    const cancelAll = (): void => {
      for (const { subject, id } of requests) limits.cancel(subject.key, id)
    }
    let first: readonly Reservation[] | undefined
    for (let notBefore: number | undefined; ; ) {
      cancelAll()
      const reservations = requests.map((request) =>
        limits.reserve(request.subject.key, request.rules, {
          ...termsOf(request),
          ...(notBefore === undefined ? {} : { notBefore }),
        }),
      )
      first ??= reservations
      const at = Math.max(
        ...reservations.map((reservation) => (reservation.held ? reservation.at : Number.POSITIVE_INFINITY)),
      )
      if (at >= from) break
      if (reservations.every((reservation) => reservation.at === at)) {
        for (const { subject, id } of all)
          if (subjects.get(subject.key)?.booked?.has(id)) note(subject, id, at)
        return { at, from, reservations: first, freed: pauseBusy(requests) }
      }
      notBefore = at
    }
    cancelAll()
    for (const { subject, id, rules } of requests) {
      const streams = rules.map((rule) => rule.stream)
      limits.restore(subject.key, [{ id, at: from, fired: false, streams }])
    }
    return isLater ? { at: from, from, reservations: first, freed: [] } : undefined
  }

  return {
    reserve: (requests) => each(requests, reserve, true),
    preview: (requests) => each(requests, preview, true),
    fire: (requests) =>
      each(requests, (request) => {
        const { subject, id, rules, notBefore = 0 } = request
        // One that was overdue when the subject was filled may hold a later place: others leave before it.
        const place = subjects.get(subject.key)?.booked?.get(id)
        if (place !== undefined && place > clock.now() && place >= notBefore)
          return { fired: false, at: place }
        const { fired, at } = limits.fire(subject.key, id, rules, releaseOf(request))
        note(subject, id, fired ? undefined : at)
        const leavesPlace = !fired && at - clock.now() > nearMs
        const freed = leavesPlace ? pauseBusy([request])[0] : undefined
        return freed === undefined ? { fired, at } : { fired, at, freed }
      }),
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
      await each(requests, ({ subject, id }) => {
        const of = known(subject.key)!
        of.waitlist ??= new Set()
        of.waitlist.add(id)
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
      floors.set(key, floor)
    },
    async waiting(asked) {
      const [ids] = await each([{ subject: asked }], ({ subject }) => idsOf(subject))
      return ids!
    },
    async advance(requests) {
      const limited = limitedOf(requests)
      const last = limited.at(-1)
      // All of them are known in the step in which the last one is.
      return (await each(limited, (one) => (one === last ? advance(requests) : undefined))).at(-1)
    },
    holdFingerprints: (claims) =>
      each(claims, ({ subject, fingerprint, id, windowMs, dry }) => {
        const of = known(subject.key)!
        of.claims ??= new Map()
        return claim(of.claims, { fingerprint, id, windowMs, dry }, clock.now())
      }),
    async releaseFingerprints(claims) {
      await each(claims, ({ subject, fingerprint, id }) => {
        const of = known(subject.key)!
        if (of.claims?.get(fingerprint)?.id === id) of.claims.delete(fingerprint)
      })
    },
    renew() {
      generation += 1
      packed = createPackedSubjects(packedMax)
    },
    async adopt(requests) {
      await each(requests, ({ subject, id, rules, at }) => {
        if (rules.length === 0 || isFired(subject.key, id)) return
        limits.cancel(subject.key, id)
        const streams = rules.map((rule) => rule.stream)
        limits.restore(subject.key, [{ id, at, fired: false, streams }])
        note(subject, id, at)
      })
    },
    close: () => Promise.resolve(),
  }

  /** Lists the ids that wait in a subject, in the order of acceptance. */
  function idsOf({ key }: Subject): readonly string[] {
    const now = clock.now()
    const { booked, waitlist } = subjects.get(key) ?? {}
    const ids = [...(booked ?? [])].flatMap(([id, at]) => (at > now ? [id] : []))
    for (const id of waitlist ?? []) if (booked?.has(id) !== true) ids.push(id)
    return ids.sort()
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
