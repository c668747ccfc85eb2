/**
 * Paces the large bodies and the long lists of one tenant while other tenants are there. Parsing, writing and removing
 * megabytes keeps the disk, the store's thread and a core busy, a page of many notifications the event loop, and each
 * small request meets what is busy then: between two heavy requests of a tenant lies as long as their bytes take at the
 * pace, so that most of the time is left to the others. A tenant that is alone is not paced, and neither are small
 * requests.
 */
import type { Clock } from '../ports.ts'

export interface HeavyRequestPacerOptions {
  readonly clock: Pick<Clock, 'now' | 'at'>
  /** Bytes a second of one tenant: a sixth of what two cores take in as batches of 2.7 MB. @defaultValue 4 MiB */
  readonly bytesPerSecond?: number
  /** A request never waits longer, however many are before it: its client counts the time too. @defaultValue 10_000 ms */
  readonly waitMaxMs?: number
  /** A tenant is alone where no other has sent a request for so long. @defaultValue 10_000 ms */
  readonly rememberedMs?: number
}

/** The weight of one notification of a list: as JSON it has some 0.7 KiB, and it takes the event loop 30 µs. */
const rowBytes = 2 ** 10

/** The weight of a list, in bytes of a body; 0 where it is short, as one page of a screen is. */
export const heavyBytesOf = (rows: number): number => (rows > rowsUnpaced ? rows * rowBytes : 0)
const rowsUnpaced = 100

export interface HeavyRequestPacer {
  /** Notes that a tenant has sent a request, of any size. */
  note(tenant: string): void
  /** Resolves when a heavy request of the tenant may be worked on; undefined: now. */
  pace(tenant: string, bytes: number): Promise<void> | undefined
  /** Lets all waiting requests go on, and paces no further one: a graceful shutdown leaves them no time. */
  close(): void
}

export function createHeavyRequestPacer({
  clock,
  bytesPerSecond = 2 ** 22,
  waitMaxMs = 10_000,
  rememberedMs = 10_000,
}: HeavyRequestPacerOptions): HeavyRequestPacer {
  /** Instants at which the pace of a tenant has room for its next request; only tenants whose instant is to come stay. */
  const freeAt = new Map<string, number>()
  let latest: string | undefined
  let latestAt = Number.NEGATIVE_INFINITY
  /** The last request of a tenant that is not the latest. */
  let othersAt = Number.NEGATIVE_INFINITY
  /** Wakes requests that wait: at most one for each. */
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
      // Each of them has sent a heavy request within the last `waitMaxMs` and its own bytes: they are few.
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
