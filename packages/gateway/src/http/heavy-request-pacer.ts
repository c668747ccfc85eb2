/**
 * Paces the large bodies of one tenant while other tenants are there. Parsing, writing and removing megabytes keeps the
 * disk, the store's thread and a core busy, and each small request meets what is busy then: between two large bodies of
 * a tenant lies as long as their bytes take at the pace, so that most of the time is left to the others. A tenant that
 * is alone is not paced, and neither are small requests.
 */
import type { Clock } from '../ports.ts'

export interface HeavyRequestPacerOptions {
  readonly clock: Pick<Clock, 'now' | 'at'>
  /** Bytes a second of one tenant: a third of what two cores take in as batches of 2.7 MB. @defaultValue 8 MiB */
  readonly bytesPerSecond?: number
  /** A body never waits longer, however many are before it: its client counts the time too. @defaultValue 10_000 ms */
  readonly waitMaxMs?: number
  /** A tenant is alone where no other has sent a request for so long. @defaultValue 10_000 ms */
  readonly rememberedMs?: number
}

export interface HeavyRequestPacer {
  /** Notes that a tenant has sent a request, of any size. */
  note(tenant: string): void
  /** Resolves when a large body of the tenant may be worked on; undefined: now. */
  pace(tenant: string, bytes: number): Promise<void> | undefined
  /** Lets all waiting bodies go on, and paces no further one: a graceful shutdown leaves them no time. */
  close(): void
}

export function createHeavyRequestPacer({
  clock,
  bytesPerSecond = 2 ** 23,
  waitMaxMs = 10_000,
  rememberedMs = 10_000,
}: HeavyRequestPacerOptions): HeavyRequestPacer {
  /** Instants at which the pace of a tenant has room for its next body; only tenants whose instant is to come stay. */
  const freeAt = new Map<string, number>()
  let latest: string | undefined
  let latestAt = Number.NEGATIVE_INFINITY
  /** The last request of a tenant that is not the latest. */
  let othersAt = Number.NEGATIVE_INFINITY
  /** As many as there are requests. */
  const waiting = new Set<() => void>()
  let isClosed = false

  function isAlone(tenant: string, now: number): boolean {
    return now - (tenant === latest ? othersAt : latestAt) >= rememberedMs
  }

  function forgetIdle(now: number): void {
    for (const [tenant, at] of freeAt) if (at <= now) freeAt.delete(tenant)
  }

  return {
    note(tenant) {
      if (tenant !== latest) {
        othersAt = latestAt
        latest = tenant
      }
      latestAt = clock.now()
    },
    pace(tenant, bytes) {
      const now = clock.now()
      // Each of them has sent a large body within the last `waitMaxMs` and its own bytes: they are few.
      forgetIdle(now)
      if (isClosed || isAlone(tenant, now)) return undefined
      const begin = Math.min(freeAt.get(tenant) ?? now, now + waitMaxMs)
      freeAt.set(tenant, begin + (bytes / bytesPerSecond) * 1_000)
      if (begin <= now) return undefined
      return new Promise((resolve) => {
        const go = (): void => {
          waiting.delete(go)
          cancel()
          resolve()
        }
        const cancel = clock.at(begin, go)
        waiting.add(go)
      })
    },
    close() {
      isClosed = true
      for (const go of [...waiting]) go()
    },
  }
}
