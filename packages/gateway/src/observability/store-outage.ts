/**
 * Tells in the log once that the server of the store is away, and once that it is back. Every part of the gateway fails with
 * it, again and again: those errors are counted, and not told beside it.
 */
import { StoreAwayError } from '../errors.ts'
import type { Clock } from '../ports.ts'
import type { Log } from './log-events.ts'

export interface StoreOutageOptions {
  readonly clock: Pick<Clock, 'now' | 'monotonic' | 'at'>
  readonly log: Pick<Log, 'info' | 'error'>
}

export interface StoreOutage {
  /** Watches the store at this address from now on; an error of any other one is covered by nothing. */
  watch(store: { readonly shown: string; readonly ping: () => Promise<void> }): void
  /** Hears of an error; true where the log has told already that the store is away, which makes it. */
  covers(error: unknown): boolean
  stop(): void
}

/** Pause between two looks if the store is back, ms. */
const probeMs = 1_000
/**
 * The store is back when it has answered for so long without an error, ms: one whose disk is full refuses acceptances only,
 * and answers a look some seconds behind one.
 */
const calmMs = 10_000

export function createStoreOutage({ clock, log }: StoreOutageOptions): StoreOutage {
  let watched: Parameters<StoreOutage['watch']>[0] | undefined
  let awaySince: number | undefined
  let calmSince: number | undefined
  let isProbing = false
  let disarm = (): void => {}

  /** Looks until the store answers. An error of one statement alone is no outage. */
  async function probe(): Promise<void> {
    if (watched === undefined) return
    const { shown, ping } = watched
    const err: unknown = await ping().then(
      () => undefined,
      (error: unknown) => error,
    )
    if (watched === undefined) return
    const now = clock.monotonic()
    if (err !== undefined) {
      if (awaySince === undefined) log.error({ event: 'store.unavailable', store: shown, err })
      awaySince ??= now
      calmSince = undefined
    } else {
      calmSince ??= now
      if (awaySince === undefined || now - calmSince >= calmMs) {
        if (awaySince !== undefined)
          log.info({ event: 'store.available', store: shown, awayMs: Math.round(calmSince - awaySince) })
        awaySince = undefined
        isProbing = false
        return
      }
    }
    disarm = clock.at(clock.now() + probeMs, () => void probe())
  }

  return {
    watch(store) {
      watched = store
    },
    covers(error) {
      if (!(error instanceof StoreAwayError)) return false
      calmSince = undefined
      if (watched !== undefined && !isProbing) {
        isProbing = true
        void probe()
      }
      return awaySince !== undefined
    },
    stop() {
      watched = undefined
      awaySince = undefined
      disarm()
    },
  }
}
