/**
 * Rate limits of requests that send nothing. Requests that bring notifications are limited and queued in
 * admission; lists, searches, and changes of stored data are refused above their tenant's rate before any work
 * is done. A read by id is not limited. Several processes hold a rate together; while they cannot, each holds it by itself.
 */
import {
  createLimits,
  entriesOf,
  type Limit,
  limit,
  memoryStore,
  type RestoredEntry,
  type Window,
} from '@sluice/limits'
import { SluiceError } from '../errors.ts'

/** `reads` are lists, timelines and searches; `writes` are changes that send nothing. */
export type RequestKind = 'reads' | 'writes'

export type RequestRates = Readonly<Record<RequestKind, readonly Window[]>>

export interface RequestLimitsOptions {
  /** No windows: unlimited. */
  readonly ratesOf: (tenant: string) => RequestRates
  /** Milliseconds of a monotonic clock. @defaultValue since the process began */
  readonly now?: () => number
  /**
   * Counts so many requests over several processes, or fewer; rejects where nobody can count. @defaultValue this process
   * has the rates for itself
   */
  readonly take?: (
    kind: RequestKind,
    tenant: string,
    rules: readonly Limit[],
    count: number,
  ) => Promise<{ readonly taken: number; readonly waitMs: number }>
}

export interface RequestLimits {
  /**
   * Counts one request; without a promise where no other process must be asked.
   *
   * @throws SluiceError REQUEST_LIMIT_EXCEEDED for a refused request, which is not counted
   */
  take(kind: RequestKind, tenant: string): void | Promise<void>
  /** The requests of this process that its windows still count: others ask for them where the common count was lost. */
  counted(kind: RequestKind, tenant: string): readonly RestoredEntry[]
}

/** A request that waits for the answer of the other processes. */
interface WaitingRequest {
  readonly resolve: () => void
  readonly reject: (error: unknown) => void
}

/** The most requests of a tenant in one question to the other processes. */
const togetherMax = 64

const what: Readonly<Record<RequestKind, string>> = {
  reads: 'lists, timelines and searches',
  writes: 'changes that send nothing',
}

export function createRequestLimits({
  ratesOf,
  now = () => Math.floor(performance.now()),
  take: takeShared,
}: RequestLimitsOptions): RequestLimits {
  // A tenant is forgotten when its windows are empty, after the longest of them at most.
  const store = memoryStore({ now, retentionMs: 0 })
  const { sync } = createLimits({ store })
  const rules = new WeakMap<readonly Window[], readonly Limit[]>()
  /** The requests that go in the next question about a subject, while one is under way. */
  const waiting = new Map<string, WaitingRequest[]>()
  let serial = 0

  const subjectOf = (kind: RequestKind, tenant: string): string => `${kind}\n${tenant}`

  function rulesOf(kind: RequestKind, windows: readonly Window[]): readonly Limit[] {
    let found = rules.get(windows)
    if (found === undefined) {
      found = [
        limit(
          kind,
          windows.map(({ text }) => text),
        ),
      ]
      rules.set(windows, found)
    }
    return found
  }

  function refusal(kind: RequestKind, windows: readonly Window[], retryAfterMs: number): SluiceError {
    const rate = windows.map(({ text }) => text).join(', ')
    return new SluiceError(
      'REQUEST_LIMIT_EXCEEDED',
      `This tenant asks for more ${what[kind]} than ${rate}. Nothing was done and nothing is queued.`,
      { retryAfterMs },
    )
  }

  function takeOwn(kind: RequestKind, tenant: string, windows: readonly Window[]): void {
    const { allowed, retryAfterMs } = sync.take(subjectOf(kind, tenant), rulesOf(kind, windows))
    if (!allowed) throw refusal(kind, windows, retryAfterMs)
  }

  /** Asks for the requests of one tenant together: those that come while a question is under way go in the next one. */
  async function askTogether(kind: RequestKind, tenant: string, windows: readonly Window[]): Promise<void> {
    const subject = subjectOf(kind, tenant)
    for (;;) {
      const together = waiting.get(subject)!.splice(0, togetherMax)
      if (together.length === 0) break
      const limits = rulesOf(kind, windows)
      const given = await takeShared!(kind, tenant, limits, together.length).catch(() => undefined)
      // Nobody else waits for an answer that may not come either: a flood would wait ever longer.
      if (given === undefined) together.push(...waiting.get(subject)!.splice(0))
      if (given !== undefined && given.taken > 0) {
        serial += 1
        sync.force(subject, String(serial), limits, { weight: given.taken })
      }
      for (const [index, { resolve, reject }] of together.entries()) {
        try {
          if (given === undefined) takeOwn(kind, tenant, windows)
          else if (index >= given.taken) throw refusal(kind, windows, given.waitMs)
          resolve()
        } catch (error) {
          reject(error)
        }
      }
    }
    waiting.delete(subject)
  }

  return {
    take(kind, tenant) {
      const windows = ratesOf(tenant)[kind]
      if (windows.length === 0) return
      if (takeShared === undefined) return takeOwn(kind, tenant, windows)
      const subject = subjectOf(kind, tenant)
      return new Promise((resolve, reject) => {
        const others = waiting.get(subject)
        if (others !== undefined) {
          others.push({ resolve, reject })
          return
        }
        waiting.set(subject, [{ resolve, reject }])
        void askTogether(kind, tenant, windows)
      })
    },
    counted: (kind, tenant) => entriesOf(store.sync, subjectOf(kind, tenant)),
  }
}
