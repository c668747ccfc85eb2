/**
 * Rate limits of requests that send nothing. Requests that bring notifications are limited and queued in
 * admission; lists, searches, and changes of stored data are refused above their tenant's rate before any work
 * is done. A read by id is not limited.
 */
import { createLimits, type Limit, limit, memoryStore, type Window } from '@sluice/limits'
import { SluiceError } from '../errors.ts'

/** `reads` are lists, timelines and searches; `writes` are changes that send nothing. */
export type RequestKind = 'reads' | 'writes'

export type RequestRates = Readonly<Record<RequestKind, readonly Window[]>>

export interface RequestLimitsOptions {
  /** No windows: unlimited. */
  readonly ratesOf: (tenant: string) => RequestRates
  /** Milliseconds of a monotonic clock. @defaultValue since the process began */
  readonly now?: () => number
}

export interface RequestLimits {
  /**
   * Counts one request.
   *
   * @throws SluiceError REQUEST_LIMIT_EXCEEDED for a refused request, which is not counted
   */
  take(kind: RequestKind, tenant: string): void
}

const what: Readonly<Record<RequestKind, string>> = {
  reads: 'lists, timelines and searches',
  writes: 'changes that send nothing',
}

export function createRequestLimits({
  ratesOf,
  now = () => Math.floor(performance.now()),
}: RequestLimitsOptions): RequestLimits {
  // A tenant is forgotten when its windows are empty, after the longest of them at most.
  const { sync } = createLimits({ store: memoryStore({ now, retentionMs: 0 }) })
  const rules = new WeakMap<readonly Window[], readonly Limit[]>()

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

  return {
    take(kind, tenant) {
      const windows = ratesOf(tenant)[kind]
      if (windows.length === 0) return
      const { allowed, retryAfterMs } = sync.take(`${kind}\n${tenant}`, rulesOf(kind, windows))
      if (allowed) return
      const rate = windows.map(({ text }) => text).join(', ')
      throw new SluiceError(
        'REQUEST_LIMIT_EXCEEDED',
        `This tenant asks for more ${what[kind]} than ${rate}. Nothing was done and nothing is queued.`,
        { retryAfterMs },
      )
    },
  }
}
