/**
 * The limiter's state in this process: a cache of facts from the store. A subject is filled from the record on the
 * first touch, and forgotten again when many others were touched since, so what waits costs disk and not memory.
 */
import { createLimits, memoryStore, type RestoredEntry } from '@sluice/limits'
import type { Clock, LimitRequest, LimitState, Subject } from '../../ports.ts'

/** What the record says of a subject. */
export interface Facts {
  readonly entries: readonly RestoredEntry[]
  /** Fingerprints of what was accepted, with their instants. */
  readonly fingerprints: readonly { readonly fingerprint: string; readonly id: string; readonly at: number }[]
}

export interface MemoryStateOptions {
  readonly clock: Clock
  /** Every window is kept this much longer, for what happens on the way to the provider. */
  readonly marginMs: number
  /** Answers at once where it need not ask. */
  readonly factsOf: (subject: Subject) => Facts | Promise<Facts>
  /** Subjects kept in memory at most. @defaultValue 100_000 */
  readonly subjectsMax?: number
}

interface Known {
  claims: Map<string, { readonly id: string; readonly at: number }> | undefined
  /** Since the hand came by. */
  touched: boolean
}

/** Places that the hand looks at when there are too many: of two that were not touched since, one is forgotten. */
const looksPerSubject = 2
/** Above so many fingerprints of one person those beyond their window are dropped. */
const claimsTidyAt = 64

export function createMemoryState(options: MemoryStateOptions): LimitState {
  const { clock, factsOf } = options
  const { subjectsMax = 100_000 } = options
  const limits = createLimits({
    store: memoryStore({ now: () => clock.now() }),
    marginMs: options.marginMs,
  }).sync
  const subjects = new Map<string, Known>()
  const loading = new Map<string, Promise<void>>()
  /** A clock with a second chance (Corbató, 1968): one look-up a question, and nothing is moved. */
  let hand = subjects.entries()

  function known(key: string): Known | undefined {
    const found = subjects.get(key)
    if (found !== undefined) found.touched = true
    return found
  }

  function remember(key: string, { entries, fingerprints }: Facts): void {
    if (entries.length > 0) limits.restore(key, entries)
    const claims = fingerprints.length === 0 ? undefined : new Map<string, { id: string; at: number }>()
    for (const { fingerprint, id, at } of fingerprints) claims!.set(fingerprint, { id, at })
    if (subjects.size >= subjectsMax) for (let look = 0; look < looksPerSubject; look += 1) forgetNext()
    subjects.set(key, { claims, touched: true })
  }

  function forgetNext(): void {
    const next = hand.next()
    if (next.done === true) {
      hand = subjects.entries()
      return
    }
    const [key, subject] = next.value
    if (subject.touched) subject.touched = false
    else {
      subjects.delete(key)
      limits.forget(key)
    }
  }

  /** Undefined when all are known, so that nothing waits that need not. */
  function ready(requests: readonly { readonly subject: Subject }[]): Promise<unknown> | undefined {
    let waits: Promise<void>[] | undefined
    for (const { subject } of requests) {
      const { key } = subject
      if (known(key) !== undefined) continue
      const wait = loading.get(key) ?? load(subject)
      if (wait === undefined) continue
      waits ??= []
      waits.push(wait)
    }
    return waits === undefined ? undefined : Promise.all(waits)
  }

  function load(subject: Subject): Promise<void> | undefined {
    const { key } = subject
    const facts = factsOf(subject)
    if (!(facts instanceof Promise)) {
      remember(key, facts)
      return undefined
    }
    const wait = facts.then((read) => remember(key, read)).finally(() => loading.delete(key))
    loading.set(key, wait)
    return wait
  }

  async function each<Request extends { readonly subject: Subject }, Answer>(
    requests: readonly Request[],
    one: (request: Request) => Answer,
  ): Promise<readonly Answer[]> {
    const wait = ready(requests)
    if (wait !== undefined) await wait
    return requests.map(one)
  }

  return {
    reserve: (requests) =>
      each(requests, (request) => limits.reserve(request.subject.key, request.rules, request)),
    preview: (requests) => each(requests, preview),
    fire: (requests) =>
      each(requests, (request) => limits.fire(request.subject.key, request.id, request.rules, request)),
    async force(requests) {
      await each(requests, (request) => limits.force(request.subject.key, request.id, request.rules))
    },
    async cancel(requests) {
      await each(requests, (request) => limits.cancel(request.subject.key, request.id))
    },
    claim: (claims) =>
      each(claims, ({ subject, fingerprint, id, windowMs, dry }) => {
        const of = known(subject.key)!
        of.claims ??= new Map()
        const now = clock.now()
        const first = of.claims.get(fingerprint)
        if (first !== undefined && first.id !== id && now < first.at + windowMs) return false
        if (dry === true) return true
        if (of.claims.size >= claimsTidyAt) {
          for (const [key, claim] of of.claims) if (claim.at + windowMs <= now) of.claims.delete(key)
        }
        of.claims.set(fingerprint, { id, at: now })
        return true
      }),
    async unclaim(claims) {
      await each(claims, ({ subject, fingerprint, id }) => {
        const of = known(subject.key)!
        if (of.claims?.get(fingerprint)?.id === id) of.claims.delete(fingerprint)
      })
    },
    close: () => Promise.resolve(),
  }

  /** Books and takes back within one turn of the event loop: the answer is that of `reserve`, and nobody sees it. */
  function preview(request: LimitRequest) {
    const id = `preview:${request.id}`
    const booking = limits.reserve(request.subject.key, request.rules, { ...request, id })
    limits.cancel(request.subject.key, id)
    return booking
  }
}
