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
  readonly factsOf: (subject: Subject) => Promise<Facts>
  /** Subjects kept in memory at most. @defaultValue 100_000 */
  readonly subjectsMax?: number
}

interface Known {
  claims: Map<string, { readonly id: string; readonly at: number }> | undefined
}

/** Above so many fingerprints of one person those beyond their window are dropped. */
const claimsTidyAt = 64

export function createMemoryState(options: MemoryStateOptions): LimitState {
  const { clock, factsOf } = options
  const halfMax = (options.subjectsMax ?? 100_000) / 2
  const limits = createLimits({
    store: memoryStore({ now: () => clock.now() }),
    marginMs: options.marginMs,
  }).sync
  // Two generations, as in a cache with a second chance: what is touched moves to the young one.
  let young = new Map<string, Known>()
  let old = new Map<string, Known>()
  const loading = new Map<string, Promise<void>>()

  function known(key: string): Known | undefined {
    const found = young.get(key)
    if (found !== undefined) return found
    const older = old.get(key)
    if (older !== undefined) remember(key, older)
    return older
  }

  function remember(key: string, subject: Known): void {
    young.set(key, subject)
    if (young.size < halfMax) return
    for (const forgotten of old.keys()) if (!young.has(forgotten)) limits.forget(forgotten)
    old = young
    young = new Map()
  }

  async function load(subject: Subject): Promise<void> {
    const { entries, fingerprints } = await factsOf(subject)
    limits.restore(subject.key, entries)
    const claims = fingerprints.length === 0 ? undefined : new Map<string, { id: string; at: number }>()
    for (const { fingerprint, id, at } of fingerprints) claims!.set(fingerprint, { id, at })
    remember(subject.key, { claims })
  }

  /** Undefined when all are known, so that nothing waits that need not. */
  function ready(requests: readonly { readonly subject: Subject }[]): Promise<unknown> | undefined {
    let waits: Promise<void>[] | undefined
    for (const { subject } of requests) {
      if (known(subject.key) !== undefined) continue
      let wait = loading.get(subject.key)
      if (wait === undefined) {
        wait = load(subject).finally(() => loading.delete(subject.key))
        loading.set(subject.key, wait)
      }
      waits ??= []
      waits.push(wait)
    }
    return waits === undefined ? undefined : Promise.all(waits)
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
